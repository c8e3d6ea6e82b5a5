"""Training curves: one panel a metric, one line a method."""

import numpy as np
from matplotlib.figure import Figure

from verl.dph.evaluation.plots import LINE_END, label_line_ends
from verl.dph.evaluation.svg import panel, text_width
from verl.dph.evaluation.theme import Colour
from verl.dph.evaluation.training_log import TrainingLog

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
SMOOTHED_STEPS = 5


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


def training_plot(
    metric: str, logs: dict[str, TrainingLog], labels: dict[str, str], colours: dict[str, Colour]
) -> Figure:
    """One metric against the step: a faint line as logged, a strong one as the mean of the last SMOOTHED_STEPS."""
    height, top, bottom = 230, 12, 42
    names = {name: labels[name] for name, log in logs.items() if metric in log}
    right = LINE_END + text_width(list(names.values()))
    figure, axes = panel(height, left=46, right=right, top=top, bottom=bottom)
    ends = {}
    for name in names:
        steps, values = np.array(list(logs[name][metric].items())).T
        smooth = running_mean(values, SMOOTHED_STEPS)
        axes.plot(steps, values, color=colours[name].stand_in, linewidth=0.8, alpha=0.35)
        axes.plot(steps, smooth, color=colours[name].stand_in, linewidth=2)
        ends[name] = float(smooth[-1])
    axes.set_xlabel("step")
    axes.grid(False, axis="x")
    axes.margins(x=0.01)
    axes.xaxis.get_major_locator().set_params(integer=True)
    label_line_ends(axes, ends, names, colours, height - top - bottom)
    return figure


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """[S] float: the mean of the last `width` values at each step, of all so far at the first ones."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - width, 0)
    return (total[end] - total[start]) / (end - start)
