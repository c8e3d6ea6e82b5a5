"""The top of the page: a headline and a summary that are made from the tests' verdicts, and tiles.

Only significant differences are stated. Two methods represent all: one without the divergence (GRPO if it is there) and
the first one with it. If there is no such pair, the first two trained methods do.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl.common.listed import listed
from rl.evaluation.analysis.claims import (
    INCONCLUSIVE,
    LOWER,
    NOT_MEASURED,
    REWARD_ONLY,
    SUPPORTED,
    claimed_metrics,
    compared,
    metric_name,
)
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.measures import in_display_unit, interval_of
from rl.evaluation.report.theme import Look
from rl.evaluation.spec import BASE, ReportSpec, split_name
from rl.evaluation.table import NO_VALUE
from rl.metrics.bootstrap import mean_interval
from rl.metrics.styles import BY_OPENING, OTHERS, style_counts

MOST_BARS = 5
LEAST_SHARE = 0.02  # of the base's samples: the sentences on its accuracy leave out rarer styles
STYLES, PAIR, TO_BASE = "styles", "pair", "base"  # kinds of findings
SIDES = (SUPPORTED, LOWER)
SIGNS = {SUPPORTED: "▲", LOWER: "▼", INCONCLUSIVE: "≈", NOT_MEASURED: ""}
IN_WORDS = {SUPPORTED: "higher than", LOWER: "lower than", INCONCLUSIVE: "not distinguishable from"}


@dataclass(frozen=True)
class Bar:
    look: Look
    value: str
    share: float = 0  # per cent of the full width, like low and high
    low: float = 0
    high: float = 0
    sign: str = ""  # whether the value differs from the base's
    in_words: str = ""  # the sign in words


@dataclass(frozen=True)
class Tile:
    title: str
    about: str
    bars: list[Bar]


def leading_methods(spec: ReportSpec) -> list[str]:
    """The one or two methods that the headline is about."""
    reward_only = sorted(spec.without_divergence, key=lambda name: (name != "grpo", not name.startswith(REWARD_ONLY)))
    pair = [*reward_only[:1], *spec.with_divergence[:1]]
    return pair if len(pair) == 2 else spec.trained[:2]


class Headline:
    """
    Args:
        tests: as paired_tests() returns them.
        looks: {method: its look}, with short names.
    """

    def __init__(self, comparison: Comparison, tests: Sequence[PairedTest], looks: dict[str, Look]):
        self.comparison, self.spec, self.looks = comparison, comparison.spec, looks
        self.tested = {(test.split, test.first, test.second, test.metric): test for test in tests}
        self.split = self.spec.splits[0]
        base = comparison.samples[BASE][self.split]
        self.n, self.prompts = base.n, base.prompts
        self.leading = leading_methods(self.spec)

    def _verdict(self, name: str, other: str, metric: str, split: str | None = None) -> str:
        test = self.tested.get((split or self.split, name, other, metric))
        return compared(test.difference, test.p_holm) if test else NOT_MEASURED

    def title(self) -> str:
        """The findings on the first split."""
        if not self.leading:
            return f"{self.looks[BASE].label} on {self.prompts} questions"
        return " ".join(self._findings(self.split).values()) or self._no_difference(self.split)

    def summary(self) -> list[str]:
        """A line for each further split, without what the title says; then what may be chance between two methods."""
        if not self.leading:
            return []
        first, lines = self._findings(self.split), []
        where = split_name(self.split).lower()
        for split in self.spec.splits[1:]:
            found = self._findings(split)
            if found == first:
                text = f"the same as {where}."
            else:
                same = {kind for kind, sentence in found.items() if first.get(kind) == sentence}
                said = [sentence for kind, sentence in found.items() if kind not in same]
                said += [f"{self._subject(kind)}: the same as {where}." for kind in found if kind in same]
                text = " ".join(said) or self._no_difference(split)
            lines.append(f"{split_name(split)}: {text}")
        if len(self.leading) == 2:
            chance: dict[str, list[str]] = {}
            for split in self.spec.splits:
                if metrics := self._inconclusive(split):
                    chance.setdefault(listed(metrics), []).append(split_name(split).lower())
            parts = [f"{metrics} ({listed(splits)})" for metrics, splits in chance.items()]
            lines += [f"{self._both()} may differ by chance in {'; in '.join(parts)}."] if parts else []
        return lines

    def _findings(self, split: str) -> dict[str, str]:
        """{kind: sentence} of what is significant on a split, among STYLES, PAIR and TO_BASE."""
        found = {STYLES: self._styles(split), PAIR: self._pair(split), TO_BASE: self._to_base(split)}
        return {kind: sentence for kind, sentence in found.items() if sentence}

    def _styles(self, split: str) -> str:
        """The styles of two methods that differ in them, or of the base and the methods that differ from it."""
        found = {name: self.comparison.summaries[name][split]["styles"] for name in (BASE, *self.leading)}
        numbers = {name: f"{interval[0]:.1f}" for name, interval in found.items() if interval}

        def differ(name: str, other: str) -> bool:
            test = self.tested.get((split, name, other, "style_entropy"))
            if not (
                test and numbers.keys() >= {name, other} and self._verdict(name, other, test.metric, split) in SIDES
            ):
                return False
            return self._numbers_agree(name, other, split)

        named = self.leading
        if len(named) < 2 or not differ(named[1], named[0]):
            named = [BASE, *(name for name in self.leading if differ(name, BASE))]
        if len(named) < 2:
            return ""
        first, *others = named
        styles = [f"{self._label(name)} in {numbers[name]}" for name in others]
        subject = _capitalised(self._label(first))
        return f"{subject} gives right answers in {numbers[first]} styles a question, {listed(styles)}."

    def _numbers_agree(self, name: str, other: str, split: str) -> bool:
        """Whether the numbers of styles, as shown, differ in the direction of their entropy, which is tested."""
        of_both = (self.comparison.summaries[method][split]["styles"] for method in (name, other))
        shown, of_other = (round(interval[0], 1) for interval in of_both)
        return (shown - of_other) * self.tested[split, name, other, "style_entropy"].difference[0] > 0

    def _pair(self, split: str) -> str:
        """The second method against the first: first attempts, n tries, and other metrics that say the opposite."""
        if len(self.leading) < 2:
            return ""
        other, name = (self.looks[method].label for method in self.leading)
        verdicts = {metric: verdict for metric, verdict in self._verdicts(split).items() if verdict in SIDES}
        plain = {metric: verdicts.pop(metric) for metric in self._plain(split) if metric in verdicts}
        parts = [self._phrase(split, plain, f" than {other}")] if plain else []
        for verdict, side in ((SUPPORTED, "above"), (LOWER, "below")):
            metrics = [metric_name(metric) for metric, found in verdicts.items() if found == verdict]
            if metrics and verdict not in plain.values():
                parts.append(f"is {side} {'it' if parts else other} in {listed(metrics)}")
        return f"{name} {', but '.join(parts)}." if parts else ""

    def _to_base(self, split: str) -> str:
        """What the leading methods gain and lose against the base; a finding on both has one clause."""
        verdicts = {
            name: {m: v for m in self._plain(split) if (v := self._verdict(name, BASE, m, split)) in SIDES}
            for name in self.leading
        }
        first, *others = verdicts.values()
        shared = {m: v for m, v in first.items() if others and all(of.get(m) == v for of in others)}
        subjects = {"both": shared} | {
            self.looks[name].label: {m: v for m, v in of.items() if m not in shared} for name, of in verdicts.items()
        }
        clauses: list[str] = []
        for subject, of in ((subject, of) for subject, of in subjects.items() if of):
            than = "" if clauses else " than the base"
            clauses.append(f"{subject} {self._phrase(split, of, than, plural=subject == 'both')}")
        clauses = clauses or self._others_to_base(split)
        return f"{_capitalised('; '.join(clauses))}." if clauses else ""

    def _others_to_base(self, split: str) -> list[str]:
        """What the leading methods gain and lose against the base in the other metrics that claims are about."""
        found: dict[str, list[str]] = {}
        others = [m for m in claimed_metrics(self.comparison, split) if m not in self._plain(split)]
        for verdict, side in ((SUPPORTED, "above"), (LOWER, "below")):
            for name in self.leading:
                metrics = [metric_name(m) for m in others if self._verdict(name, self._base_of(m), m, split) == verdict]
                if metrics:
                    found.setdefault(f"{side} the base in {listed(metrics)}", []).append(self.looks[name].label)
        return [f"{listed(names)} {'is' if len(names) == 1 else 'are'} {what}" for what, names in found.items()]

    def _base_of(self, metric: str) -> str:
        """The model that shows what an unchanged base has in a metric."""
        return self.spec.noise_floor if metric == "keep_rate" else BASE

    def _phrase(self, split: str, verdicts: dict[str, str], than: str, plural: bool = False) -> str:
        """What methods do more or less than others, from {metric of _plain: SUPPORTED or LOWER}."""
        are, solve = ("are", "solve") if plural else ("is", "solves")
        right, solved = self._plain(split)
        words = {
            right: {SUPPORTED: f"{are} right more often", LOWER: f"{are} right less often"},
            solved: {
                SUPPORTED: f"{solve} more questions in {self._tries(split)} tries",
                LOWER: f"{solve} fewer questions in {self._tries(split)} tries",
            },
        }
        first, *others = (words[metric][verdict] for metric, verdict in verdicts.items())
        link = " and " if len(set(verdicts.values())) == 1 else ", but "
        return link.join([first + than, *others])

    def _verdicts(self, split: str) -> dict[str, str]:
        """{metric: verdict} of the second method against the first, in all metrics that claims are about."""
        first, second = self.leading
        return {m: self._verdict(second, first, m, split) for m in claimed_metrics(self.comparison, split)}

    def _inconclusive(self, split: str) -> list[str]:
        """What may differ by chance between the two methods."""
        first, second = self.leading
        found = [metric_name(m) for m, verdict in self._verdicts(split).items() if verdict == INCONCLUSIVE]
        of_styles = self._verdict(second, first, "style_entropy", split)
        return [*found, "number of styles"] if of_styles == INCONCLUSIVE else found

    def _tries(self, split: str) -> int:
        return self.comparison.samples[BASE][split].n

    def _plain(self, split: str) -> tuple[str, str]:
        """The two metrics that the headline states in words and the tiles show."""
        return f"mean@{self._tries(split)}", f"pass@{self._tries(split)}"

    def _subject(self, kind: str) -> str:
        return {STYLES: "Styles", PAIR: self._both(), TO_BASE: "Against the base"}[kind]

    def _both(self) -> str:
        return listed([self.looks[name].label for name in self.leading])

    def _label(self, name: str) -> str:
        return "the base" if name == BASE else self.looks[name].label

    def _no_difference(self, split: str) -> str:
        names = listed([self._label(name) for name in (BASE, *self.leading)])
        prompts = self.comparison.samples[BASE][split].prompts
        among = {BASE, self.spec.noise_floor, *self.leading}
        others = dict.fromkeys(
            metric_name(metric)
            for where, name, other, metric in self.tested
            if where == split and {name, other} <= among and self._verdict(name, other, metric, split) in SIDES
        )
        apart = f", except in {listed([*others])}" if others else ""
        where = "this question" if prompts == 1 else f"these {prompts} questions"
        return f"No difference between {names} is beyond chance on {where}{apart}."

    def tiles(self) -> list[Tile]:
        """Pass@1, Pass@n, styles or else the keep rate, and the other metrics that the title names."""
        names = self.comparison.samples[BASE][self.split].style_names
        metrics = [*self._plain(self.split), "styles" if names else "keep_rate"]
        others = [metric for metric in claimed_metrics(self.comparison, self.split) if metric not in metrics]
        metrics += [metric for metric in others if re.search(rf"\b{metric_name(metric)}\b", self.title())]
        return [self._tile(metric, len(names) - 1 if metric == "styles" else 1) for metric in metrics]

    def _about(self, metric: str, most: int) -> str:
        family, _, k = metric.partition("@")
        styles = "ways of writing" if self.spec.styles_by == BY_OPENING else "forms of SQL"
        m = self.spec.solved_in
        return {
            "mean": "right at the first try, per cent",
            "pass": f"right at least once in {k} tries, per cent",
            "greedy": "right at temperature 0, per cent",
            "keep_rate": f"Pass@{m} on what the base solved in {m} samples, per cent",
            "styles": f"{styles} among a question’s right answers, of {most}",
        }[family]

    def _tile(self, metric: str, most: int) -> Tile:
        shown = [BASE, *self.leading, *(name for name in self.spec.trained if name not in self.leading)][:MOST_BARS]
        bars = []
        for name in shown:
            interval = interval_of(self.comparison.summaries[name][self.split], metric)
            if interval is None:
                bars.append(Bar(self.looks[name], NO_VALUE))
                continue
            value, digits = in_display_unit(metric, interval[0])
            text = f"{value:.{1 if metric == 'styles' else digits}f}"
            # The entropy of styles is tested in place of their number.
            tested = "style_entropy" if metric == "styles" else metric
            verdict = self._verdict(name, self._base_of(metric), tested)
            if metric == "styles" and verdict in SIDES and not self._numbers_agree(name, BASE, self.split):
                verdict = NOT_MEASURED
            share, low, high = (min(100 * v / most, 100) for v in interval)
            words = f"{IN_WORDS[verdict]} the base" if verdict in IN_WORDS else ""
            bars.append(Bar(self.looks[name], text, share, low, high, SIGNS[verdict], words))
        return Tile(_capitalised(metric_name(metric)), self._about(metric, most), bars)


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def style_sentences(comparison: Comparison, looks: dict[str, Look]) -> list[str]:
    """A text for each split with styles: how often the base is right in them, and each leading method's main one."""
    return [text for split in comparison.spec.splits if (text := _of_styles(comparison, looks, split))]


def _of_styles(comparison: Comparison, looks: dict[str, Look], split: str) -> str:
    """The text of a split; empty if the base has fewer than two styles with LEAST_SHARE of its samples."""
    base, samples = comparison.summaries[BASE][split], comparison.samples[BASE][split]
    used = base["style_share"] or {}
    named = [style for style, share in used.items() if style != OTHERS and share >= LEAST_SHARE]
    if len(named) < 2:
        return ""
    ordered = sorted(named, key=lambda style: base["style_accuracy"][style][0])
    worst, best = (f"{100 * base['style_accuracy'][style][0]:.0f} % ({style})" for style in (ordered[0], ordered[-1]))
    text = f"{split_name(split)}, the base is right in {worst} to {best} of its samples in a style. "
    # [P, styles] float: the accuracy of each question's samples in a style; NaN without one.
    all_styles, right = (
        style_counts(samples.style, of, len(samples.style_names)) for of in (samples.style >= 0, samples.correct)
    )
    accuracy = np.where(all_styles > 0, right / np.maximum(all_styles, 1), np.nan)
    of_best, *of_others = (accuracy[:, samples.style_names.index(style)] for style in reversed(ordered))
    ahead = [mean_interval(of_best - of_other) for of_other in of_others]
    if all(interval and interval[1] > 0 for interval in ahead):
        text += f"{ordered[-1]} is the style that it is right in most often."
    else:
        text += "Which style it is right in most often may be chance."
    for name in leading_methods(comparison.spec):
        shares = comparison.summaries[name][split]["style_share"]
        most = max(shares, key=shares.__getitem__)
        text += f" {looks[name].label} uses {most} most, in {100 * shares[most]:.0f} % of its samples"
        text += f" (the base: {100 * used[most]:.0f} %)."
    return text
