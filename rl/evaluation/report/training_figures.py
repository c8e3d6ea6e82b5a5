"""The training section of report.html: validation during training, and curves of the policy and the rehearsal."""

from rl.common.training_metrics import drawn_titles, title_of
from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.figures import Group, Panel
from rl.evaluation.report.plots import SMOOTHED_STEPS, training_plot
from rl.evaluation.report.theme import method_looks
from rl.evaluation.spec import ReportSpec

REHEARSAL_PREFIX = "dph/"
# Not drawn: the cost of scoring says nothing about a method.
SCORER_PREFIX = "dph/scorer/"
# verl's: val-core/<data source>/<acc or reward>/<mean@n, best@n/mean or maj@n/mean>.
VALIDATION_PREFIX = "val-core/"

# For plots whose runs may have trained on different prompts.
ON_OWN_PROMPTS = (
    "Reward, entropy, length and other values of rollouts are measured on each run’s own training prompts. Runs on "
    "different prompts cannot be compared in them."
)


def training_figures(spec: ReportSpec, logs: dict[str, TrainingLog]) -> tuple[list[Group], list[Panel]]:
    """The groups that have something to show, and panels of the other rehearsal metrics."""
    looks = method_looks(spec.short_names)

    def panels(metrics: dict[str, str], kind: str, smoothed_steps: int = SMOOTHED_STEPS) -> list[Panel]:
        found: list[Panel] = []
        for metric, title in metrics.items():
            if drawn := {name: log for name, log in logs.items() if metric in log}:
                last = (f"{name} {list(log[metric].values())[-1]:g}" for name, log in drawn.items())
                alt, data = f"{title}, last: {', '.join(last)}", (metric, smoothed_steps, drawn, looks)
                found.append(Panel.draw(title, alt, f"{kind}-{len(found)}", training_plot, *data))
        return found

    plotted, constants = plotted_metrics(logs)
    first = {metric: title for metric, title in plotted.items() if metric in drawn_titles()}
    others = {metric: title for metric, title in plotted.items() if metric not in first}
    of_validation = (
        "As logged during training. best@n resamples n of n samples with replacement, so it lies below Pass@n."
    )
    about = (
        f"Each step as logged (faint) and the mean of the last {SMOOTHED_STEPS} steps. Entropy over all sampled tokens "
        "is not the entropy of styles."
    )
    if constants:
        about += (
            " Constant throughout: "
            + ", ".join(f"{title_of(name)} = {value:g}" for name, value in constants.items())
            + "."
        )
    about += f" {ON_OWN_PROMPTS}" if len(logs) > 1 else ""
    key = [looks[name] for name in logs]
    groups = [
        Group("Validation against training steps", of_validation, panels(validation_metrics(logs), "val", 1), key),
        Group("Policy and rehearsal", about, panels(first, "train"), key),
    ]
    return [group for group in groups if group.panels], panels(others, "rehearsal")


def plotted_metrics(logs: dict[str, TrainingLog]) -> tuple[dict[str, str], dict[str, float]]:
    """Which metrics get a panel, and which are constant: ({name: title} in order, {name: the constant}).

    Drawn metrics come first, then the others of the rehearsal. A metric is constant if it has one value
    in all runs and steps.
    """
    others = [m for m in _occurring(logs, REHEARSAL_PREFIX) if not m.startswith(SCORER_PREFIX)]
    plotted, constants = {}, {}
    for metric, title in (drawn_titles() | {m: title_of(m) for m in others if m not in drawn_titles()}).items():
        values = {value for log in logs.values() for value in log.get(metric, {}).values()}
        if len(values) == 1:
            constants[metric] = values.pop()
        elif values:
            plotted[metric] = title
    return plotted, constants


def validation_metrics(logs: dict[str, TrainingLog]) -> dict[str, str]:
    """{metric: title} of verl's validation during training: mean@n and best@n per validation set, for its n."""
    found = {}
    for metric in _occurring(logs, VALIDATION_PREFIX):
        source, _, estimate = metric.removeprefix(VALIDATION_PREFIX).rsplit("/", 2 + metric.endswith("/mean"))[:3]
        if estimate.startswith(("mean@", "best@")):
            found[metric] = f"{source}: {estimate}"
    return found


def _occurring(logs: dict[str, TrainingLog], prefix: str) -> list[str]:
    return sorted({metric for log in logs.values() for metric in log if metric.startswith(prefix)})
