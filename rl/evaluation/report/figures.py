"""The figures of report.html: plots with their captions, a group for each question they answer."""

from html import escape

from matplotlib.figure import Figure

from rl.evaluation.analysis.checkpoints import Progress
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.transitions import fates_of_split
from rl.evaluation.report.eta_plots import EtaCurves, eta_plot
from rl.evaluation.report.plots import pass_at_k_plot, progress_plot
from rl.evaluation.report.row_plots import interval_plot, stacked_plot
from rl.evaluation.report.svg import inline_svg
from rl.evaluation.report.tables import split_name
from rl.evaluation.report.theme import FATE_FILLS, Look, method_looks, style_fills
from rl.evaluation.spec import BASE, BASE_AGAIN, ReportSpec
from rl.metrics.bootstrap import Interval, mean_interval
from rl.metrics.styles import OTHERS


def evaluation_figures(comparison: Comparison, progress: Progress) -> str:
    """All groups of plots of the samples, each with one panel a split."""
    figures = _Figures(comparison)
    groups = [figures.pass_at_k(), figures.fates(), figures.keep_rate(), *figures.progress(progress), *figures.etas()]
    return "\n".join(filter(None, [*groups, figures.style_shares(), figures.style_entropy()]))


def looks_of(spec: ReportSpec) -> dict[str, Look]:
    """How every method is drawn."""
    return method_looks({name: method.label for name, method in spec.methods.items()})


class _Figures:
    """The groups of one report; a group that has nothing to show is an empty text."""

    def __init__(self, comparison: Comparison):
        self.comparison = comparison
        self.spec = comparison.spec
        self.looks = looks_of(comparison.spec)
        self.floor = BASE_AGAIN if BASE_AGAIN in self.spec.methods else BASE
        self.floor_name = "a second draw of the base" if self.floor == BASE_AGAIN else "the base’s own later samples"
        self.has_floor = any(self._summary(self.floor, split)["keep_rate"] for split in self.spec.splits)
        self.no_floor = (
            "There is no noise floor, what an unchanged model loses and finds by chance: that takes a second draw of "
            f"the base, or {2 * self.spec.solved_in} samples of it."
        )

    def pass_at_k(self) -> str:
        methods = [name for name in self.spec.methods if name != BASE_AGAIN]
        panels = []
        for split in self.spec.splits:
            curves = {
                name: {int(k): interval for k, interval in self._summary(name, split)["pass@k"].items()}
                for name in methods
            }
            n = self.comparison.samples[BASE][split].n
            says = self._in_words({name: curve[n] for name, curve in curves.items()}, f"Pass@{n}")
            panels.append(self._panel("pass", split, pass_at_k_plot(curves, self.looks), says))
        about = "Per cent of prompts with a correct answer among k samples. Bands are 95 % intervals over prompts."
        return group("Pass@k against k", about, panels, line_key({name: self.looks[name] for name in methods}))

    def fates(self) -> str:
        if not self.spec.trained:
            return ""
        panels = []
        for split in self.spec.splits:
            if shares := fates_of_split(self.comparison, split):
                plot = stacked_plot(shares, FATE_FILLS, self._with_floor_named())
                panels.append(self._panel("fates", split, plot, self._parts_in_words(shares)))
        m = self.spec.solved_in
        floor = (
            f"First stands {self.floor_name}, the noise floor: what an unchanged model loses and finds by chance."
            if self.has_floor
            else self.no_floor
        )
        about = (
            f"Per cent of all prompts. Kept and lost were solved by the base in its first {m} samples, new and never "
            f"were not; a method solves a prompt with probability Pass@{m}, so that both have {m} tries. {floor} Lost "
            "in the tables is stricter: not one of all samples is correct."
        )
        return group("Kept, lost and new against the base", about, panels, fill_key(FATE_FILLS))

    def keep_rate(self) -> str:
        if not self.spec.trained:
            return ""
        panels = []
        for split in self.spec.splits:
            values = {name: self._summary(name, split)["keep_rate"] for name in self.spec.trained}
            floor = self._summary(self.floor, split)["keep_rate"]
            says = self._in_words(values | {self.floor: floor}, "Keep rate")
            plot = interval_plot(values, self.looks, percent=True, floor=floor)
            about_floor = f": noise floor {100 * floor[0]:.1f}" if floor else ""
            panels.append(self._panel("keep", split, plot, says, about_floor))
        m = self.spec.solved_in
        noise = (
            f"The dashed line with its band is {self.floor_name}: the noise floor, what an unchanged model keeps."
            if self.has_floor
            else self.no_floor
        )
        about = f"Mean Pass@{m}, in per cent, on the prompts that the base solved in its first {m} samples. {noise}"
        return group("Keep rate", about, panels)

    def progress(self, progress: Progress) -> list[str]:
        """Pass@solved_in and greedy accuracy of checkpoints against the training step."""
        about = "Per cent; step 0 is the base. Bands are 95 % intervals over prompts."
        groups = []
        for metric, title in ((f"pass@{self.spec.solved_in}", f"Pass@{self.spec.solved_in}"), ("greedy", "Greedy")):
            panels, shown = [], {}
            for split in self.spec.splits:
                curves = {}
                for name, splits in progress.items():
                    curve = {step: values[metric] for step, values in splits.get(split, {}).items() if metric in values}
                    if curve.keys() - {0}:
                        curves[name] = curve
                if curves:
                    says = self._in_words({name: list(curve.values())[-1] for name, curve in curves.items()}, title)
                    panels.append(self._panel(f"steps-{title[0]}", split, progress_plot(curves, self.looks), says))
                    shown |= {name: self.looks[name] for name in curves}
            groups.append(group(f"{title} against training steps", about, panels, line_key(shown)))
        return groups

    def etas(self) -> list[str]:
        """eta against greedy accuracy and, beside it, against Pass@solved_in."""
        curves = EtaCurves.of(self.spec)
        looks = curves.looks(self.looks)
        about = (
            "Per cent against eta, the coefficient of the divergence. A point is a run with its 95 % interval over "
            "prompts; a line goes through the mean of the runs of one family with equal eta. Dashed: methods without "
            "an eta."
        )
        groups = []
        for metric, title in (("greedy", "greedy"), (f"pass@{self.spec.solved_in}", f"Pass@{self.spec.solved_in}")):
            panels = []
            for split in self.spec.splits if curves.families else ():
                of_prompts = {name: self.comparison.metrics[name][split] for name in self.spec.methods}
                values = {name: mean_interval(of[metric]) for name, of in of_prompts.items() if metric in of}
                drawn = EtaCurves(
                    families={
                        family: of
                        for family, of in curves.families.items()
                        if all(name in values for names in of.values() for name in names)
                    },
                    references=[name for name in curves.references if name in values],
                )
                if drawn.families:
                    says = self._in_words(values, title)
                    panels.append(self._panel(f"eta-{title[0]}", split, eta_plot(drawn, values, looks), says))
            groups.append(group(f"eta against {title}", about, panels, line_key(looks)))
        return groups

    def style_shares(self) -> str:
        panels, fills = [], style_fills((*self.spec.styles, OTHERS))
        for split in self._splits_with_styles():
            shares = {name: self._summary(name, split)["style_share"] for name in self.spec.methods}
            plot = stacked_plot(shares, fills, self.looks)
            panels.append(self._panel("share", split, plot, self._parts_in_words(shares)))
        about = "Per cent of all samples, correct or not."
        return group("Which styles the samples take", about, panels, fill_key(fills))

    def style_entropy(self) -> str:
        panels = []
        for split in self._splits_with_styles():
            values = {name: self._summary(name, split)["style_entropy"] for name in self.spec.methods}
            says = self._in_words(values, "Style entropy", percent=False)
            panels.append(self._panel("entropy", split, interval_plot(values, self.looks, percent=False), says))
        about = "Entropy in nats of the styles among a prompt’s correct answers, mean over prompts: 0 is one style."
        return group("Style entropy", about, panels)

    def _summary(self, name: str, split: str) -> dict:
        return self.comparison.summaries[name][split]

    def _splits_with_styles(self) -> list[str]:
        """Those of SQL."""
        return [split for split in self.spec.splits if self.comparison.samples[BASE][split].style_names]

    def _with_floor_named(self) -> dict[str, Look]:
        """The looks, the base's own row called what it shows: it is compared with itself."""
        base = self.looks[BASE]
        return self.looks | {BASE: Look(f"{base.label}, later samples", base.tag, base.colour, base.marker)}

    def _panel(self, kind: str, split: str, plot: Figure, says: str, caption: str = "") -> str:
        """A split's name may hold what no id may: its place stands for it."""
        return framed(split_name(split) + caption, plot, f"{kind}-{self.spec.splits.index(split)}", says)

    def _in_words(self, values: dict[str, Interval], metric: str, percent: bool = True) -> str:
        """The plotted values as text, for a reader who does not see the plot."""
        scale, digits = (100, 1) if percent else (1, 2)
        parts = [
            f"{self.looks[name].label} " + ("none" if value is None else f"{scale * value[0]:.{digits}f}")
            for name, value in values.items()
        ]
        return f"{metric}: {', '.join(parts)}"

    def _parts_in_words(self, shares: dict[str, dict[str, float]]) -> str:
        return "; ".join(
            f"{self.looks[name].label}: " + ", ".join(f"{piece} {100 * part:.0f}" for piece, part in share.items())
            for name, share in shares.items()
        )


def framed(caption: str, plot: Figure, name: str, says: str) -> str:
    """One panel: the plot below its caption. name: unique on the page; says: for a reader who does not see it."""
    return f"<figure><figcaption>{escape(caption)}</figcaption>{inline_svg(plot, name, says)}</figure>"


def group(title: str, about: str, panels: list[str], key: str = "") -> str:
    """Panels that answer one question; nothing when there are none."""
    if not panels:
        return ""
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    text = escape(about).replace(" %", "&nbsp;%")
    return f'{heading}<p class="about">{text}</p>{key}<div class="grid">{"".join(panels)}</div>'


def line_key(looks: dict[str, Look]) -> str:
    """Whose letters stand at the lines' ends; nothing where names stand there."""
    lettered = [look for look in looks.values() if look.tag != look.label]
    items = "".join(
        f'<li><b style="color:var(--{look.colour.variable})">{look.tag}</b>{escape(look.label)}</li>'
        for look in lettered
    )
    return f'<ul class="key">{items}</ul>' if lettered else ""


def fill_key(fills: dict[str, str]) -> str:
    """What the pieces of stacked bars are."""
    items = "".join(f'<li><i style="background:{fill}"></i>{escape(piece)}</li>' for piece, fill in fills.items())
    return f'<ul class="key">{items}</ul>'
