"""The figures of report.html: plots with captions, grouped by the question that they answer."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from rl.evaluation.analysis.comparison import Comparison, Progress
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.analysis.prompt_metrics import transition_shares
from rl.evaluation.measures import SHOWN, in_words, metrics_for
from rl.evaluation.report.canvas import inline_svg
from rl.evaluation.report.plots import (
    checkpoints_plot,
    difference_plot,
    eta_families,
    eta_plot,
    pass_at_k_plot,
    stacked_plot,
)
from rl.evaluation.report.theme import TRANSITION_FILLS, Look, method_looks, style_fills
from rl.evaluation.spec import BASE, BASE_AGAIN, split_name
from rl.metrics.bootstrap import Interval, mean_interval
from rl.metrics.styles import OTHERS


@dataclass(frozen=True)
class Panel:
    """One plot."""

    caption: str
    description: str  # for a reader who does not see the plot
    drawing: Markup

    @classmethod
    def draw(cls, caption: str, description: str, name: str, plot: Callable[..., Figure], *data: Any) -> "Panel":
        """plot: called with the data; name: unique on the page."""
        return cls(caption, description, Markup(inline_svg(plot(*data), name)))


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
        self.looks = method_looks(self.spec.short_names)

    def of_evaluation(self, progress: Progress) -> list[Group]:
        groups = [self._pass_at_k(), self._transitions()]
        metrics = (f"pass@{self.spec.solved_in}", "greedy")
        groups += [self._checkpoints(progress, metric) for metric in metrics]
        groups += [self._etas(metric) for metric in reversed(metrics)]
        return [group for group in groups if group.panels]

    def of_styles(self) -> list[Group]:
        """How often every method answers in each style, for splits of SQL."""
        splits = [split for split in self.spec.splits if self.comparison.samples[BASE][split].style_names]
        if not splits:
            return []
        fills, shares = style_fills((*self.spec.styles, OTHERS)), []
        for split in splits:
            of_methods = {name: summary["style_share"] for name, summary in self._summaries(split).items()}
            shares.append(self._stacked("share", split, of_methods, fills, self.looks))
        return [Group("Styles", "Per cent of all samples, correct or not.", shares, fills=fills)]

    def differences(self, split: str, tests: Iterable[PairedTest], shown: Collection[str]) -> list[Panel]:
        """A panel per metric: the shown methods minus the base, and minus the first method."""
        n = self.comparison.samples[BASE][split].n
        panels: list[Panel] = []
        found = [test for test in tests if test.split == split and test.first in shown]
        for metric in metrics_for(SHOWN, n, self.spec.solved_in):
            rows, looks = {}, {}
            for test in (test for test in found if test.metric == metric):
                of_base = test.second in (BASE, BASE_AGAIN)
                if of_base or test.second == self.spec.trained[0]:
                    row, look = f"{test.first} - {test.second}", self.looks[test.first]
                    label = f"{look.label} − {self.looks[test.second].label}: {test.verdict}"
                    rows[row], looks[row] = test.difference, replace(look, label=label)
            if rows:
                alt = self._in_words(rows, in_words(metric), looks)
                caption = f": {in_words(metric)}"
                panels.append(
                    self._panel(
                        f"difference-{metric[:4]}{len(panels)}",
                        split,
                        alt,
                        difference_plot,
                        rows,
                        looks,
                        caption=caption,
                    )
                )
        return panels

    def _pass_at_k(self) -> Group:
        """A panel per split."""
        looks = {name: look for name, look in self.looks.items() if name != BASE_AGAIN}
        panels = []
        for split in self.spec.splits:
            found, n = self._summaries(split), self._summaries(split)[BASE]["n"]
            curves = {name: {int(k): of for k, of in found[name]["pass@k"].items()} for name in looks}
            alt = self._in_words({name: curve[n] for name, curve in curves.items()}, f"Pass@{n}")
            panels.append(self._panel("pass", split, alt, pass_at_k_plot, curves, looks))
        about = (
            "Per cent of questions with a correct response among k samples. Bands are 95 % intervals over questions."
        )
        return Group("Pass@k against k", about, panels, looks.values())

    def _transitions(self) -> Group:
        """Shares of retained, forgotten, gained and unsolved prompts; the first row is the noise floor."""
        floor, m = self.spec.noise_floor, self.spec.solved_in
        # The base's own row compares its later samples with its first ones.
        looks = self.looks | {BASE: replace(self.looks[BASE], label=f"{self.looks[BASE].label}, later samples")}
        panels, has_floor = [], False
        for split in self.spec.splits if self.spec.trained else ():
            metrics = {name: self.comparison.metrics[name][split] for name in (floor, *self.spec.trained)}
            found = {name: transition_shares(of["keep_rate"], of["newly_solved"]) for name, of in metrics.items()}
            has_floor |= self._summaries(split)[floor]["keep_rate"] is not None
            if shares := {name: of for name, of in found.items() if of is not None}:
                panels.append(self._stacked("transitions", split, shares, TRANSITION_FILLS, looks))
        if has_floor:
            of_floor = "a second draw of the base" if floor == BASE_AGAIN else "the base’s own later samples"
            about_floor = f"The first row is {of_floor}: the noise floor of an unchanged model."
        else:
            about_floor = f"There is no noise floor: it needs a second draw of the base, or {2 * m} samples of it."
        about = (
            f"Per cent of all prompts. The base solved the retained and forgotten ones in {m} samples; a method solves "
            f"a prompt with probability Pass@{m}. {about_floor}"
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
                alt = self._in_words({name: list(curve.values())[-1] for name, curve in curves.items()}, title)
                panels.append(self._panel(f"steps-{metric[0]}", split, alt, checkpoints_plot, curves, self.looks))
                shown |= {name: self.looks[name] for name in curves}
        about = "Per cent; step 0 is the base. Bands are 95 % intervals over prompts."
        return Group(f"{title} against training steps", about, panels, shown.values())

    def _etas(self, metric: str) -> Group:
        def references(methods: Iterable[str]) -> list[str]:
            return [name for name in methods if self.spec.methods[name].family is None and name != BASE_AGAIN]

        panels = []
        for split in self.spec.splits:
            of_prompts = {name: self.comparison.metrics[name][split] for name in self.spec.methods}
            found = {name: mean_interval(of[metric]) for name, of in of_prompts.items() if metric in of}
            values = {name: interval for name, interval in found.items() if interval}
            if families := eta_families(self.spec, values):
                alt, data = self._in_words(values, metric), (families, references(values), values, self.looks)
                panels.append(self._panel(f"eta-{metric[0]}", split, alt, eta_plot, *data))
        about = (
            "Per cent against eta, the divergence coefficient. A point is a run with its 95 % interval over prompts; a "
            "line goes through the mean of the runs of one family with equal eta. Dashed: methods without an eta."
        )
        key = [replace(self.looks[name], marker="") for name in references(self.spec.methods)]
        for family, etas in eta_families(self.spec, self.spec.methods).items():
            key.append(replace(self.looks[next(iter(etas.values()))[0]], label=family))
        return Group(f"eta against {metric}", about, panels, key)

    def _summaries(self, split: str) -> dict[str, dict]:
        return {name: self.comparison.summaries[name][split] for name in self.spec.methods}

    def _panel(self, kind: str, split: str, alt: str, plot: Callable[..., Figure], *data: Any, caption="") -> Panel:
        """Ids use the split's position, because its name may have characters that an id may not."""
        return Panel.draw(split_name(split) + caption, alt, f"{kind}-{self.spec.splits.index(split)}", plot, *data)

    def _stacked(
        self, kind: str, split: str, shares: dict[str, dict[str, float]], fills: dict[str, str], looks: dict[str, Look]
    ) -> Panel:
        alt = "; ".join(
            f"{self.looks[name].label}: " + ", ".join(f"{piece} {100 * part:.0f}" for piece, part in share.items())
            for name, share in shares.items()
        )
        return self._panel(kind, split, alt, stacked_plot, shares, fills, looks)

    def _in_words(
        self, values: Mapping[str, Interval | None], metric: str, looks: dict[str, Look] | None = None
    ) -> str:
        looks = looks or self.looks
        parts = [
            f"{looks[name].label} " + ("none" if value is None else f"{100 * value[0]:.1f}")
            for name, value in values.items()
        ]
        return f"{metric}: {', '.join(parts)}"
