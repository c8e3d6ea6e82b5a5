"""The figures of report.html: plots with their captions, grouped by the question that they answer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from markupsafe import Markup
from matplotlib.figure import Figure

from rl.evaluation.analysis.checkpoints import Progress
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.transitions import transitions_of_split
from rl.evaluation.report.canvas import inline_svg
from rl.evaluation.report.plots import EtaCurves, checkpoints_plot, eta_plot, pass_at_k_plot
from rl.evaluation.report.row_plots import interval_plot, stacked_plot
from rl.evaluation.report.tables import group_titles, split_name
from rl.evaluation.report.theme import DARK, LIGHT, TRANSITION_FILLS, Look, method_looks, style_fills, style_looks
from rl.evaluation.spec import BASE, BASE_AGAIN, ReportSpec
from rl.metrics.bootstrap import Interval, mean_interval
from rl.metrics.styles import OTHERS


@dataclass(frozen=True)
class Panel:
    """One plot, drawn for a light and for a dark page."""

    caption: str
    description: str  # for a reader who does not see the plot
    light: Markup
    dark: Markup

    @classmethod
    def draw(cls, caption: str, description: str, name: str, plot: Callable[[str], Figure]) -> "Panel":
        """plot: called with light or dark; name: unique on the page."""
        light, dark = (Markup(inline_svg(plot(page), f"{name}-{page}")) for page in (LIGHT, DARK))
        return cls(caption, description, light, dark)


@dataclass(frozen=True)
class Group:
    """Panels that answer one question."""

    title: str
    about: str
    panels: list[Panel]
    lines: Iterable[Look] = ()  # the key: whose line is whose
    fills: dict[str, str] = field(default_factory=dict)  # the key of stacked bars


def looks_of(spec: ReportSpec) -> dict[str, Look]:
    """How every method is drawn."""
    return method_looks(spec.short_names)


def evaluation_figures(comparison: Comparison, progress: Progress) -> list[Group]:
    """All groups that have something to show, each with one panel per split."""
    figures = _Figures(comparison)
    groups = [figures.pass_at_k()]
    if comparison.spec.trained:
        groups.append(figures.transitions())
    groups += [*figures.checkpoints(progress), *figures.etas()]
    return [group for group in groups if group.panels]


def style_figures(comparison: Comparison) -> list[Group]:
    """How accurate the base is in each style, and how often every method answers in it; empty without styles."""
    figures = _Figures(comparison)
    return [figures.style_accuracy(), figures.style_shares()] if figures.splits_with_styles() else []


class _Figures:
    """The groups of one report."""

    def __init__(self, comparison: Comparison):
        self.comparison = comparison
        self.spec = comparison.spec
        self.looks = looks_of(comparison.spec)
        self.floor = self.spec.noise_floor
        self.floor_name = "a second draw of the base" if self.floor == BASE_AGAIN else "the base’s own later samples"
        self.has_floor = any(self._summary(self.floor, split)["keep_rate"] for split in self.spec.splits)
        self.no_floor = (
            "There is no noise floor, what an unchanged model forgets and gains by chance: it requires a second draw "
            f"of the base, or {2 * self.spec.solved_in} samples of it."
        )

    def pass_at_k(self) -> Group:
        """A panel per split, and one for each of its groups of questions."""
        looks = {name: look for name, look in self.looks.items() if name != BASE_AGAIN}
        panels = []
        for split in self.spec.splits:
            parts = {"": {name: self._summary(name, split) for name in looks}}
            for (key, value), title in group_titles(self._summary(BASE, split)).items():
                parts[f"{title} "] = {name: self._summary(name, split)["groups"][key][value] for name in looks}
            for i, (title, summaries) in enumerate(parts.items()):
                curves = {name: {int(k): of for k, of in found["pass@k"].items()} for name, found in summaries.items()}
                n = self.comparison.samples[BASE][split].n
                says = self._in_words({name: curve[n] for name, curve in curves.items()}, f"Pass@{n}")
                plot = partial(pass_at_k_plot, curves=curves, looks=looks)
                questions = f": {summaries[BASE]['prompts']} {title}questions"
                panels.append(self._panel(f"pass{i}", split, says, plot, questions))
        about = (
            "Per cent of questions with a correct response among k samples. Bands are 95 % intervals over questions."
        )
        return Group("Pass@k against k", about, panels, looks.values())

    def transitions(self) -> Group:
        base = self.looks[BASE]
        # The base's own row is called what it shows: its later samples, compared with its first.
        looks = self.looks | {BASE: Look(f"{base.label}, later samples", base.colour, base.marker)}
        panels = []
        for split in self.spec.splits:
            if shares := transitions_of_split(self.comparison, split):
                plot = partial(stacked_plot, shares=shares, fills=TRANSITION_FILLS, looks=looks)
                panels.append(self._panel("transitions", split, self._parts_in_words(shares), plot))
        m = self.spec.solved_in
        floor = (
            f"The first row is {self.floor_name}, the noise floor: what an unchanged model forgets and gains by chance."
            if self.has_floor
            else self.no_floor
        )
        about = (
            f"Per cent of all prompts. The base solved the retained and forgotten ones in its first {m} samples, the "
            f"gained and unsolved ones not; a method solves a prompt with probability Pass@{m}, so that both have {m} "
            f"attempts. {floor} Lost in the tables is stricter: not a single one of all samples is correct."
        )
        return Group("Retained, forgotten and gained against the base", about, panels, fills=TRANSITION_FILLS)

    def checkpoints(self, progress: Progress) -> list[Group]:
        """Pass@solved_in and greedy accuracy of checkpoints against the training step."""
        about = "Per cent; step 0 is the base. Bands are 95 % intervals over prompts."
        groups = []
        for metric in (f"pass@{self.spec.solved_in}", "greedy"):
            title, panels = metric.capitalize(), []
            shown: dict[str, Look] = {}
            for split in self.spec.splits:
                curves = {}
                for name, splits in progress.items():
                    curve = {step: found for step, of in splits.get(split, {}).items() if (found := of.get(metric))}
                    if curve.keys() - {0}:
                        curves[name] = curve
                if curves:
                    says = self._in_words({name: list(curve.values())[-1] for name, curve in curves.items()}, title)
                    plot = partial(checkpoints_plot, curves=curves, looks=self.looks)
                    panels.append(self._panel(f"steps-{metric[0]}", split, says, plot))
                    shown |= {name: self.looks[name] for name in curves}
            groups.append(Group(f"{title} against training steps", about, panels, shown.values()))
        return groups

    def etas(self) -> list[Group]:
        """eta against greedy accuracy, and against Pass@solved_in."""
        about = (
            "Per cent against eta, the divergence coefficient. A point is a run with its 95 % interval over prompts; a "
            "line goes through the mean of the runs of one family with equal eta. Dashed: methods without an eta."
        )
        groups = []
        for metric in ("greedy", f"pass@{self.spec.solved_in}"):
            panels = []
            for split in self.spec.splits:
                of_prompts = {name: self.comparison.metrics[name][split] for name in self.spec.methods}
                found = {name: mean_interval(of[metric]) for name, of in of_prompts.items() if metric in of}
                values = {name: interval for name, interval in found.items() if interval}
                curves = EtaCurves.of(self.spec, set(values))
                if curves.families:
                    plot = partial(eta_plot, curves=curves, values=values, looks=self.looks)
                    panels.append(self._panel(f"eta-{metric[0]}", split, self._in_words(values, metric), plot))
            key = EtaCurves.of(self.spec, set(self.spec.methods)).looks(self.looks)
            groups.append(Group(f"eta against {metric}", about, panels, key))
        return groups

    def style_accuracy(self) -> Group:
        panels, looks = [], style_looks((*self.spec.styles, OTHERS))
        for split in self.splits_with_styles():
            found = self._summary(BASE, split)["style_accuracy"]
            values = {style: interval for style, interval in found.items() if interval}
            says = "Accuracy: " + ", ".join(f"{style} {100 * value[0]:.1f}" for style, value in values.items())
            plot = partial(interval_plot, intervals=values, looks=looks)
            panels.append(self._panel("accuracy", split, says, plot))
        about = "Per cent of the base’s samples in a style that are correct, with 95 % intervals over questions."
        return Group("Where the base is right", about, panels)

    def style_shares(self) -> Group:
        panels, fills = [], style_fills((*self.spec.styles, OTHERS))
        for split in self.splits_with_styles():
            shares = {name: self._summary(name, split)["style_share"] for name in self.spec.methods}
            plot = partial(stacked_plot, shares=shares, fills=fills, looks=self.looks)
            panels.append(self._panel("share", split, self._parts_in_words(shares), plot))
        return Group("What each model answers in", "Per cent of all samples, correct or not.", panels, fills=fills)

    def _summary(self, name: str, split: str) -> dict:
        return self.comparison.summaries[name][split]

    def splits_with_styles(self) -> list[str]:
        """Those of SQL."""
        return [split for split in self.spec.splits if self.comparison.samples[BASE][split].style_names]

    def _panel(self, kind: str, split: str, says: str, plot: Callable[[str], Figure], caption: str = "") -> Panel:
        """A split's name may hold what no id may: its position stands for it."""
        return Panel.draw(split_name(split) + caption, says, f"{kind}-{self.spec.splits.index(split)}", plot)

    def _in_words(self, values: Mapping[str, Interval | None], metric: str) -> str:
        parts = [
            f"{self.looks[name].label} " + ("none" if value is None else f"{100 * value[0]:.1f}")
            for name, value in values.items()
        ]
        return f"{metric}: {', '.join(parts)}"

    def _parts_in_words(self, shares: dict[str, dict[str, float]]) -> str:
        return "; ".join(
            f"{self.looks[name].label}: " + ", ".join(f"{piece} {100 * part:.0f}" for piece, part in share.items())
            for name, share in shares.items()
        )
