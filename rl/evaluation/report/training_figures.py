"""The section of report.html about training: validation while training, curves of the policy and of the rehearsal."""

from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.figures import framed, group, line_key, looks_of
from rl.evaluation.report.training_plots import (
    SMOOTHED_STEPS,
    TITLES,
    plotted_metrics,
    training_plot,
    validation_metrics,
)
from rl.evaluation.spec import ReportSpec


def training_figures(spec: ReportSpec, logs: dict[str, TrainingLog]) -> str:
    """The whole section; empty when no method has a log."""
    validated = validation_metrics(logs)
    metrics, constants = plotted_metrics(logs)
    if not metrics and not validated:
        return ""
    looks = looks_of(spec)
    key = line_key({name: looks[name] for name in logs})

    def panels(titles: dict[str, str], kind: str, smoothed_steps: int) -> list[str]:
        return [
            framed(title, training_plot(metric, logs, looks, smoothed_steps), f"{kind}-{i}", _in_words(metric, logs))
            for i, (metric, title) in enumerate(titles.items())
        ]

    about = (
        f"Each step as logged (faint) and the mean of the last {SMOOTHED_STEPS} steps. Entropy over all sampled tokens "
        "is not the entropy of styles."
    )
    if constants:
        about += " Constant throughout: " + ", ".join(f"{name} = {value:g}" for name, value in constants.items()) + "."
    of_validation = (
        "As logged while training. best@n is an estimate by drawing n of n samples with replacement, which lies below "
        "Pass@n."
    )
    titled = {metric: TITLES[metric] for metric in metrics if metric in TITLES}
    others = panels({metric: metric for metric in metrics if metric not in TITLES}, "rehearsal", SMOOTHED_STEPS)
    body = group("Validation against training steps", of_validation, panels(validated, "val", 1), key)
    body += group("Policy and rehearsal", about, panels(titled, "train", SMOOTHED_STEPS), key)
    if others:
        body += f'<details><summary>More of the rehearsal</summary><div class="grid">{"".join(others)}</div></details>'
    return f'<section id="training">\n<h2>Training</h2>\n{body}</section>'


def _in_words(metric: str, logs: dict[str, TrainingLog]) -> str:
    last = {name: list(log[metric].values())[-1] for name, log in logs.items() if metric in log}
    return f"{metric}, last: " + ", ".join(f"{name} {value:g}" for name, value in last.items())
