"""The figures of report.html: plots with their captions, a group for each question they answer."""

from html import escape

from verl.dph.evaluation.bootstrap import Interval
from verl.dph.evaluation.comparison import Comparison
from verl.dph.evaluation.plots import interval_plot, pass_at_k_plot, style_share_plot
from verl.dph.evaluation.spec import BASE, BASE_AGAIN, ReportSpec
from verl.dph.evaluation.styles import OTHERS
from verl.dph.evaluation.svg import inline_svg
from verl.dph.evaluation.tables import split_name
from verl.dph.evaluation.theme import Colour, style_fills
from verl.dph.evaluation.training_log import TrainingLog
from verl.dph.evaluation.training_plots import SMOOTHED_STEPS, TITLES, plotted_metrics, training_plot


def evaluation_figures(comparison: Comparison, colours: dict[str, Colour]) -> str:
    """All groups of plots of the samples, each with one panel a split."""
    groups = [_pass_at_k(comparison, colours)]
    if comparison.spec.trained:
        groups.append(_keep_rate(comparison, colours))
    if _splits_with_styles(comparison):
        groups += [_style_shares(comparison), _style_entropy(comparison, colours)]
    return "\n".join(groups)


def training_figures(spec: ReportSpec, logs: dict[str, TrainingLog], colours: dict[str, Colour]) -> str:
    """The section of the training curves; empty when no method has a log."""
    metrics, constants = plotted_metrics(logs)
    if not metrics:
        return ""
    panels = {
        metric: _figure(
            TITLES.get(metric, metric), training_plot(metric, logs, _labels(spec), colours), f"train-{i}", metric
        )
        for i, metric in enumerate(metrics)
    }
    titled = [panel for metric, panel in panels.items() if metric in TITLES]
    others = [panel for metric, panel in panels.items() if metric not in TITLES]
    about = (
        f"Each step as logged (faint) and the mean of the last {SMOOTHED_STEPS} steps. Entropy over all sampled tokens "
        "is not the entropy of styles."
    )
    if constants:
        about += " Constant throughout: " + ", ".join(f"{name} = {value:g}" for name, value in constants.items()) + "."
    more = f'<details><summary>More of the rehearsal</summary><div class="grid">{"".join(others)}</div></details>'
    body = _group("", about, titled) + (more if others else "")
    return f'<section id="training">\n<h2>Training</h2>\n{body}</section>'


def _pass_at_k(comparison: Comparison, colours: dict[str, Colour]) -> str:
    methods = [name for name in comparison.spec.methods if name != BASE_AGAIN]
    panels = []
    for split in comparison.spec.splits:
        curves = {name: comparison.summaries[name][split]["pass@k"] for name in methods}
        n = comparison.samples[BASE][split].n
        says = _in_words(comparison, {name: curve[str(n)] for name, curve in curves.items()}, f"Pass@{n}", percent=True)
        plot = pass_at_k_plot(curves, _labels(comparison.spec), colours)
        panels.append(_figure(split_name(split), plot, f"pass-{split}", says))
    about = "Per cent of prompts with a correct answer among k samples. Bands are 95 % intervals over prompts."
    return _group("Pass@k against k", about, panels)


def _keep_rate(comparison: Comparison, colours: dict[str, Colour]) -> str:
    spec = comparison.spec
    floor_method = BASE_AGAIN if BASE_AGAIN in spec.methods else BASE
    panels = []
    for split in spec.splits:
        values = {name: comparison.summaries[name][split]["keep_rate"] for name in spec.trained}
        floor = comparison.summaries[floor_method][split]["keep_rate"]
        says = _in_words(comparison, values | {floor_method: floor}, "Keep rate", percent=True)
        plot = interval_plot(values, _labels(spec), colours, percent=True, floor=floor)
        caption = split_name(split) + (f": noise floor {100 * floor[0]:.1f}" if floor else "")
        panels.append(_figure(caption, plot, f"keep-{split}", says))
    draw = "a second draw of the base" if floor_method == BASE_AGAIN else "the base’s own later samples"
    about = (
        f"Mean Pass@{spec.solved_in}, in per cent, on the prompts that the base solved in its first {spec.solved_in} "
        f"samples. The dashed line with its band is {draw}: the noise floor, what an unchanged model keeps."
    )
    return _group("Keep rate", about, panels)


def _style_shares(comparison: Comparison) -> str:
    spec = comparison.spec
    panels = []
    for split in _splits_with_styles(comparison):
        shares = {name: comparison.summaries[name][split]["style_share"] for name in spec.methods}
        says = "; ".join(
            f"{spec.methods[name].label}: " + ", ".join(f"{style} {100 * part:.0f}" for style, part in share.items())
            for name, share in shares.items()
        )
        panels.append(_figure(split_name(split), style_share_plot(shares, _labels(spec)), f"share-{split}", says))
    fills = style_fills((*spec.styles, OTHERS))
    key = "".join(f'<li><i style="background:{fill}"></i>{escape(style)}</li>' for style, fill in fills.items())
    return _group("Which styles the samples take", "Per cent of all samples, correct or not.", panels, key)


def _style_entropy(comparison: Comparison, colours: dict[str, Colour]) -> str:
    spec = comparison.spec
    panels = []
    for split in _splits_with_styles(comparison):
        values = {name: comparison.summaries[name][split]["style_entropy"] for name in spec.methods}
        says = _in_words(comparison, values, "Style entropy", percent=False)
        plot = interval_plot(values, _labels(spec), colours, percent=False)
        panels.append(_figure(split_name(split), plot, f"entropy-{split}", says))
    about = "Entropy in nats of the styles among a prompt’s correct answers, mean over prompts: 0 is one style."
    return _group("Style entropy", about, panels)


def _splits_with_styles(comparison: Comparison) -> list[str]:
    """Those of SQL."""
    return [split for split in comparison.spec.splits if comparison.samples[BASE][split].style_names]


def _labels(spec: ReportSpec) -> dict[str, str]:
    return {name: method.label for name, method in spec.methods.items()}


def _in_words(comparison: Comparison, values: dict[str, Interval], metric: str, percent: bool) -> str:
    """The plotted values as text, for a reader who does not see the plot."""
    scale, digits = (100, 1) if percent else (1, 2)
    parts = [
        f"{comparison.spec.methods[name].label} " + ("none" if value is None else f"{scale * value[0]:.{digits}f}")
        for name, value in values.items()
    ]
    return f"{metric}: {', '.join(parts)}"


def _figure(caption: str, plot, name: str, says: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{inline_svg(plot, name, says)}</figure>"


def _group(title: str, about: str, panels: list[str], key: str = "") -> str:
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    legend = f'<ul class="key">{key}</ul>' if key else ""
    return f'{heading}<p class="about">{escape(about)}</p>{legend}<div class="grid">{"".join(panels)}</div>'
