"""The figures of report.html: plots with captions, grouped by the question that they answer."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from rl.common.training_metrics import drawn_titles
from rl.evaluation.analysis.comparison import Comparison, Progress
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.analysis.prompt_metrics import transition_shares
from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.measures import SHOWN, in_words, metrics_for
from rl.evaluation.report.canvas import inline_svg
from rl.evaluation.report.plots import (
    SMOOTHED_STEPS,
    checkpoints_plot,
    difference_plot,
    eta_families,
    eta_plot,
    pass_at_k_plot,
    stacked_plot,
    training_plot,
)
from rl.evaluation.report.theme import TRANSITION_FILLS, Look, method_looks, style_fills
from rl.evaluation.spec import BASE, BASE_AGAIN, split_name
from rl.metrics.bootstrap import mean_interval
from rl.metrics.styles import OTHERS


@dataclass(frozen=True)
class Panel:
    """One plot."""

    caption: str
    drawing: Markup

    @classmethod
    def draw(cls, caption: str, name: str, plot: Callable[..., Figure], *data: Any) -> "Panel":
        """plot: called with the data; name: unique on the page."""
        return cls(caption, Markup(inline_svg(plot(*data), name)))


@dataclass(frozen=True)
class Group:
    """Panels that answer one question."""

    title: str
    about: str
    panels: list[Panel]
    lines: Iterable[Look] = ()  # the key of lines
    fills: dict[str, str] = field(default_factory=dict)  # the key of stacked bars


class Figures:
    """The groups of a report; groups without data are left out."""

    def __init__(self, comparison: Comparison):
        self.comparison, self.spec = comparison, comparison.spec
        self.looks = method_looks(self.spec.labels)

    def all(self, progress: Progress, logs: dict[str, TrainingLog]) -> list[Group]:
        """
        Args:
            logs: {method: its training log}.
        """
        groups = [self._styles(), self._pass_at_k(), self._transitions()]
        metrics = (f"pass@{self.spec.solved_in}", "greedy")
        groups += [self._checkpoints(progress, metric) for metric in metrics]
        groups += [self._etas(metric) for metric in reversed(metrics)]
        return [group for group in (*groups, self._training(logs)) if group.panels]

    def differences(self, split: str, tests: Iterable[PairedTest], shown: Collection[str]) -> list[Panel]:
        """A panel per metric: the shown methods minus the base, and minus the first method."""
        n = self.comparison.samples[BASE][split].n
        panels: list[Panel] = []
        compared_with = (BASE, BASE_AGAIN, self.spec.trained[0] if self.spec.trained else "")
        found = [t for t in tests if t.split == split and t.first in shown and t.second in compared_with]
        for metric in metrics_for(SHOWN, n, self.spec.solved_in):
            rows, looks = {}, {}
            for test in (test for test in found if test.metric == metric):
                row, look = f"{test.first} - {test.second}", self.looks[test.first]
                label = f"{look.label} − {self.looks[test.second].label}: {test.verdict}"
                rows[row], looks[row] = test.difference, replace(look, label=label)
            if rows:
                kind, caption = f"difference{len(panels)}", f": {in_words(metric)}"
                panels.append(self._panel(kind, split, difference_plot, rows, looks, more=caption))
        return panels

    def _styles(self) -> Group:
        """How often every method answers in each style."""
        fills, panels = style_fills((*self.spec.styles, OTHERS)), []
        for split in self.spec.splits:
            if self.comparison.samples[BASE][split].style_names:
                shares = {name: summary["style_share"] for name, summary in self._summaries(split).items()}
                panels.append(self._panel("share", split, stacked_plot, shares, fills, self.looks))
        return Group("Styles", "Per cent of all samples, correct or not.", panels, fills=fills)

    def _pass_at_k(self) -> Group:
        """A panel per split."""
        looks = {name: look for name, look in self.looks.items() if name != BASE_AGAIN}
        panels = []
        for split in self.spec.splits:
            found = self._summaries(split)
            curves = {name: {int(k): of for k, of in found[name]["pass@k"].items()} for name in looks}
            panels.append(self._panel("pass", split, pass_at_k_plot, curves, looks))
        about = (
            "Per cent of questions with a correct response among k samples. Bands are 95 % intervals over questions."
        )
        return Group("Pass@k against k", about, panels, looks.values())

    def _transitions(self) -> Group:
        """Shares of retained, forgotten, gained and unsolved prompts; the first row is the noise floor."""
        floor, m = self.spec.noise_floor, self.spec.solved_in
        # The base's own row compares its later samples with its first ones.
        looks = self.looks | {BASE: replace(self.looks[BASE], label=f"{self.looks[BASE].label}, later samples")}
        panels = []
        for split in self.spec.splits if self.spec.trained else ():
            metrics = {name: self.comparison.metrics[name][split] for name in (floor, *self.spec.trained)}
            found = {name: transition_shares(of["keep_rate"], of["newly_solved"]) for name, of in metrics.items()}
            if shares := {name: of for name, of in found.items() if of is not None}:
                panels.append(self._panel("transitions", split, stacked_plot, shares, TRANSITION_FILLS, looks))
        about = (
            f"Per cent of all prompts. The base solved the retained and forgotten ones in {m} samples; a method solves "
            f"a prompt with probability Pass@{m}. The noise floor of an unchanged model is the row of the base: its "
            f"second draw or else, with {2 * m} samples, its later ones."
        )
        return Group("Retained, forgotten and gained against the base", about, panels, fills=TRANSITION_FILLS)

    def _checkpoints(self, progress: Progress, metric: str) -> Group:
        title, panels = metric.capitalize(), []
        shown: dict[str, Look] = {}
        for split in self.spec.splits:
            curves = {}
            for name, splits in progress.items():
                curve = {step: found for step, of in splits.get(split, {}).items() if (found := of.get(metric))}
                if curve.keys() - {0}:
                    curves[name] = curve
            if curves:
                panels.append(self._panel(f"steps-{metric[0]}", split, checkpoints_plot, curves, self.looks))
                shown |= {name: self.looks[name] for name in curves}
        about = "Per cent; step 0 is the base. Bands are 95 % intervals over prompts."
        return Group(f"{title} against training steps", about, panels, shown.values())

    def _etas(self, metric: str) -> Group:
        panels: list[Panel] = []
        looks: dict[str, Look] = {}
        for split in self.spec.splits:
            of_prompts = {name: self.comparison.metrics[name][split] for name in self.spec.methods}
            found = {name: mean_interval(of[metric]) for name, of in of_prompts.items() if metric in of}
            families = eta_families(self.spec, found)
            looks |= {name: replace(self.looks[next(iter(of.values()))], label=name) for name, of in families.items()}
            if families:
                curves = {family: {eta: found[name] for eta, name in of.items()} for family, of in families.items()}
                panels.append(self._panel(f"eta-{metric[0]}", split, eta_plot, curves, looks))
        about = "Per cent against eta, the divergence coefficient. Bands are 95 % intervals over prompts."
        return Group(f"eta against {metric}", about, panels, looks.values())

    def _training(self, logs: dict[str, TrainingLog]) -> Group:
        """A metric with one value in all runs and steps is left out."""
        panels: list[Panel] = []
        for metric, title in drawn_titles().items():
            if len({value for log in logs.values() for value in log.get(metric, {}).values()}) > 1:
                panels.append(Panel.draw(title, f"train-{len(panels)}", training_plot, metric, logs, self.looks))
        about = (
            f"Each step as logged (faint) and the mean of the last {SMOOTHED_STEPS} steps. Reward, length and other "
            "values of rollouts are measured on each run’s own training prompts: runs on different prompts cannot be "
            "compared in them."
        )
        return Group("Training", about, panels, [self.looks[name] for name in logs])

    def _summaries(self, split: str) -> dict[str, dict]:
        return {name: self.comparison.summaries[name][split] for name in self.spec.methods}

    def _panel(self, kind: str, split: str, plot: Callable[..., Figure], *data: Any, more: str = "") -> Panel:
        """Ids use the split's position, because its name may have characters that an id may not."""
        return Panel.draw(split_name(split) + more, f"{kind}-{self.spec.splits.index(split)}", plot, *data)
