"""The training section of report.html: curves of the policy, the rehearsal and validation."""

from rl.common.training_metrics import drawn_titles, title_of
from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.figures import Group, Panel
from rl.evaluation.report.plots import SMOOTHED_STEPS, training_plot
from rl.evaluation.report.theme import method_looks
from rl.evaluation.spec import ReportSpec

REHEARSAL_PREFIX = "dph/"
# Not drawn: the cost of scoring says nothing about a method.
SCORER_PREFIX = "dph/scorer/"

# For plots whose runs may have trained on different prompts.
ON_OWN_PROMPTS = (
    "Reward, entropy, length and other values of rollouts are measured on each run’s own training prompts. Runs on "
    "different prompts cannot be compared in them."
)


def training_figures(spec: ReportSpec, logs: dict[str, TrainingLog]) -> tuple[list[Group], list[Panel]]:
    """The group of the drawn metrics, if there is one, and panels of the other rehearsal metrics."""
    looks = method_looks(spec.short_names)

    def panels(metrics: dict[str, str], kind: str) -> list[Panel]:
        found: list[Panel] = []
        for metric, title in metrics.items():
            drawn = {name: log for name, log in logs.items() if metric in log}
            last = (f"{name} {list(log[metric].values())[-1]:g}" for name, log in drawn.items())
            alt, data = f"{title}, last: {', '.join(last)}", (metric, SMOOTHED_STEPS, drawn, looks)
            found.append(Panel.draw(title, alt, f"{kind}-{len(found)}", training_plot, *data))
        return found

    plotted = plotted_metrics(logs)
    first = {metric: title for metric, title in plotted.items() if metric in drawn_titles()}
    others = {metric: title for metric, title in plotted.items() if metric not in first}
    about = (
        f"Each step as logged (faint) and the mean of the last {SMOOTHED_STEPS} steps. Entropy over all sampled tokens "
        "is not the entropy of styles."
    )
    about += f" {ON_OWN_PROMPTS}" if len(logs) > 1 else ""
    group = Group("Policy and rehearsal", about, panels(first, "train"), [looks[name] for name in logs])
    return [group] if group.panels else [], panels(others, "rehearsal")


def plotted_metrics(logs: dict[str, TrainingLog]) -> dict[str, str]:
    """{metric: title} of the metrics with a panel: drawn ones, then others of the rehearsal.

    A metric with one value in all runs and steps has none.
    """
    occurring = sorted({metric for log in logs.values() for metric in log if metric.startswith(REHEARSAL_PREFIX)})
    others = [metric for metric in occurring if not metric.startswith(SCORER_PREFIX)]
    titles = drawn_titles() | {metric: title_of(metric) for metric in others if metric not in drawn_titles()}
    return {
        metric: title
        for metric, title in titles.items()
        if len({value for log in logs.values() for value in log.get(metric, {}).values()}) > 1
    }
