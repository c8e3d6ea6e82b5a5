"""Training curves: one panel a metric, one line a method."""

import numpy as np
from matplotlib.figure import Figure

from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.plots import label_line_ends, line_panel
from rl.evaluation.report.theme import Look

TITLES = {
    "critic/rewards/mean": "Mean reward",
    "actor/entropy": "Entropy of the policy (nats a token)",
    "response_length/mean": "Mean response length (tokens)",
    "dph/divergence": "Divergence on D_pef",
    "dph/loss": "Rehearsal loss on D_pef",
    "dph/kl_ref_policy": "KL(π_ref‖π_θ) on D_pef",
    "dph/share_at_bound": "Share of D_pef tokens at the bound",
}
REHEARSAL_PREFIX = "dph/"
SCORER_PREFIX = "dph/scorer/"  # what scoring took says nothing about a method
VALIDATION_PREFIX = "val-core/"  # verl: val-core/<data source>/<acc or reward>/<mean@n, best@n/mean or maj@n/mean>
SMOOTHED_STEPS = 5
FEW_VALUES = 12  # up to so many are marked one by one


def plotted_metrics(logs: dict[str, TrainingLog]) -> tuple[list[str], dict[str, float]]:
    """Which metrics get a panel, and which are one constant: (names in order, {name: the constant}).

    Every metric of TITLES and every other one of the rehearsal that occurs; one that never changes, in any run, needs
    no panel.
    """
    occurring = {metric for log in logs.values() for metric in log}
    others = [m for m in occurring if m.startswith(REHEARSAL_PREFIX) and not m.startswith(SCORER_PREFIX)]
    others = sorted(m for m in others if m not in TITLES)
    names, constants = [], {}
    for metric in [m for m in TITLES if m in occurring] + others:
        values = {value for log in logs.values() for value in log.get(metric, {}).values()}
        if len(values) == 1:
            constants[metric] = values.pop()
        else:
            names.append(metric)
    return names, constants


def validation_metrics(logs: dict[str, TrainingLog]) -> dict[str, str]:
    """{metric: title} of what verl measured on each validation set while training: mean@n and best@n, for its n."""
    occurring = sorted({metric for log in logs.values() for metric in log if metric.startswith(VALIDATION_PREFIX)})
    titles = {}
    for metric in occurring:
        source, _, estimate = metric.removeprefix(VALIDATION_PREFIX).rsplit("/", 2 + metric.endswith("/mean"))[:3]
        if estimate.startswith(("mean@", "best@")):
            titles[metric] = f"{source}: {estimate}"
    return titles


def training_plot(
    metric: str, logs: dict[str, TrainingLog], looks: dict[str, Look], smoothed_steps: int = SMOOTHED_STEPS
) -> Figure:
    """One metric against the step: a faint line as logged, a strong one as the mean of the last `smoothed_steps`."""
    tags = {name: looks[name].tag for name, log in logs.items() if metric in log}
    figure, axes, height = line_panel(tags, xlabel="step", height=210, left=48)
    ends = {}
    for name in tags:
        steps, values = np.array(list(logs[name][metric].items())).T
        smooth = running_mean(values, smoothed_steps)
        colour, few = looks[name].colour.stand_in, len(values) <= FEW_VALUES
        if smoothed_steps > 1:
            axes.plot(steps, values, color=colour, linewidth=0.8, alpha=0.35)
        axes.plot(steps, smooth, color=colour, linewidth=1.8, marker=looks[name].marker if few else "", markersize=4)
        ends[name] = float(smooth[-1])
    axes.margins(x=0.01)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=5)
    label_line_ends(axes, ends, tags, looks, height)
    return figure


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """[S] float: the mean of the last `width` values at each step, of all so far at the first ones."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - width, 0)
    return (total[end] - total[start]) / (end - start)
