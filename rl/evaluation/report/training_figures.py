"""The training section of report.html: validation during training, and curves of the policy and the rehearsal."""

from rl.common.training_metrics import drawn_titles, of_rollouts, title_of
from rl.evaluation.analysis.training_log import TrainingLog, training_files
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
    """The groups that have something to show, and panels of the other rehearsal metrics.

    A metric of rollouts has a panel for each set of training prompts, if the runs' checkpoints say which they are.
    """
    looks = method_looks(spec.short_names)
    trained_on = {name: training_files(path) for name in logs if (path := spec.methods[name].training_log)}
    sets = prompt_sets(trained_on)

    def panels(metrics: dict[str, str], kind: str, smoothed_steps: int = SMOOTHED_STEPS) -> list[Panel]:
        found: list[Panel] = []
        for metric, title in metrics.items():
            with_it = {name: log for name, log in logs.items() if metric in log}
            parts = {"": list(with_it)} if not of_rollouts(metric) else sets
            for where, names in parts.items():
                drawn = {name: with_it[name] for name in names if name in with_it}
                if not drawn:
                    continue
                last = (f"{name} {list(log[metric].values())[-1]:g}" for name, log in drawn.items())
                of_part, alt = title + where, f"{title}{where}, last: {', '.join(last)}"
                data = (metric, smoothed_steps, drawn, looks)
                found.append(Panel.draw(of_part, alt, f"{kind}-{len(found)}", training_plot, *data))
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
    about += f" {ON_OWN_PROMPTS}" if len(logs) > 1 and None in trained_on.values() else ""
    if len(sets) > 1:
        about += " Runs on different training prompts have separate plots of the values of their rollouts."
    key = [looks[name] for name in logs]
    groups = [
        Group("Validation against training steps", of_validation, panels(validation_metrics(logs), "val", 1), key),
        Group("Policy and rehearsal", about, panels(first, "train"), key),
    ]
    return [group for group in groups if group.panels], panels(others, "rehearsal")


def prompt_sets(trained_on: dict[str, dict[str, str] | None]) -> dict[str, list[str]]:
    """{"", or ", on" and the names of the files: methods that were trained on the same prompts}.

    All methods are one set if they were trained on the same prompts, or if those of a method are not known.

    Args:
        trained_on: {method: what training_files returns}.
    """
    found: dict[frozenset[str], list[str]] = {}
    names = {}
    for method, files in trained_on.items():
        digests = frozenset(files or ())
        found.setdefault(digests, []).append(method)
        names[digests] = " and ".join(sorted((files or {}).values()))
    if len(found) < 2 or None in trained_on.values():
        return {"": list(trained_on)}
    several = len(set(names.values())) < len(names)  # sets whose files have the same names
    return {
        f", on {names[digests]}" + (f" of {methods[0]}" if several else ""): methods
        for digests, methods in found.items()
    }


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
