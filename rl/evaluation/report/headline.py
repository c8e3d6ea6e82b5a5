"""The top of the page: a headline and a summary that are made from verdicts, and three tiles.

Only significant differences are stated. Two methods represent all: one without the divergence (GRPO if it is there) and
the first one with it. If there is no such pair, the first two trained methods do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rl.evaluation.analysis.claims import (
    INCONCLUSIVE,
    NOT_MEASURED,
    NOT_SUPPORTED,
    ONE_STYLE,
    REWARD_ONLY,
    SUPPORTED,
    Claim,
    claimed_metrics,
    compared,
    metric_name,
)
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.measures import in_display_unit, interval_of
from rl.evaluation.report.theme import Look
from rl.evaluation.spec import BASE, ReportSpec
from rl.evaluation.table import NO_VALUE
from rl.evaluation.tables import split_name

MOST_BARS = 5
SIGNS = {SUPPORTED: "▲", NOT_SUPPORTED: "▼", INCONCLUSIVE: "≈", NOT_MEASURED: ""}
IN_WORDS = {SUPPORTED: "higher than", NOT_SUPPORTED: "lower than", INCONCLUSIVE: "not distinguishable from"}


@dataclass(frozen=True)
class Bar:
    look: Look
    value: str
    share: float = 0  # of the full width, per cent; low and high too
    low: float = 0
    high: float = 0
    sign: str = ""  # of the difference from the base
    in_words: str = ""  # the same


@dataclass(frozen=True)
class Tile:
    title: str
    about: str
    bars: list[Bar]


def leading_methods(spec: ReportSpec) -> list[str]:
    """The one or two methods that the headline is about."""
    reward_only = sorted(spec.without_divergence, key=lambda name: not name.startswith(REWARD_ONLY))
    pair = [*reward_only[:1], *spec.with_divergence[:1]]
    return pair if len(pair) == 2 else spec.trained[:2]


class Headline:
    """
    Args:
        claims: as claims() returns them.
        tests: as paired_tests() returns them.
        looks: {method: its look}, with short names.
    """

    def __init__(
        self, comparison: Comparison, claims: Sequence[Claim], tests: Sequence[PairedTest], looks: dict[str, Look]
    ):
        self.comparison, self.spec, self.looks = comparison, comparison.spec, looks
        self.claims = claims
        self.tested = {(test.split, test.first, test.second, test.metric): test for test in tests}
        self.split = self.spec.splits[0]
        base = comparison.samples[BASE][self.split]
        self.n, self.prompts = base.n, base.prompts
        self.leading = leading_methods(self.spec)

    def _verdict(self, name: str, other: str, metric: str, split: str | None = None) -> str:
        test = self.tested.get((split or self.split, name, other, metric))
        return compared(test.difference, test.p_holm) if test else NOT_MEASURED

    def title(self) -> str:
        sentences = [found for name in self.leading if (found := self._sentence(name))]
        if sentences:
            return " ".join(sentences)
        if not self.leading:
            return f"{self.looks[BASE].label} on {self.prompts} questions"
        *names, last = ("the base", *(self.looks[name].label for name in self.leading))
        return (
            f"No difference between {', '.join(names)} and {last} is beyond chance on these {self.prompts} questions."
        )

    def _sentence(self, name: str) -> str:
        """The first significant gain and the first significant loss, or two of one kind; "" if nothing is."""
        good, bad = [], []
        tries, than_base = f"questions in {self.n} tries", " than the base"
        for metric, up, down in (
            (f"mean@{self.n}", "is right more often", "is right less often"),
            (f"pass@{self.n}", f"solves more {tries}", f"solves fewer {tries}"),
        ):
            verdict = self._verdict(name, BASE, metric)
            good += [up + than_base] if verdict == SUPPORTED else []
            bad += [down + than_base] if verdict == NOT_SUPPORTED else []
        for claim in self.claims:
            if (claim.method, claim.split, claim.unit, claim.verdict) == (name, self.split, "nats", SUPPORTED):
                (bad if claim.predicate == ONE_STYLE else good).append(claim.predicate)
        if name != self.leading[0]:
            other = self.looks[self.leading[0]].label
            verdicts = {
                m: self._verdict(name, self.leading[0], m) for m in (f"pass@{self.n}", f"mean@{self.n}", "greedy")
            }
            more = verdicts[f"pass@{self.n}"] == SUPPORTED
            good = [f"solves more {tries} than {other}", *good] if more else good
            worse = [metric_name(metric) for metric, verdict in verdicts.items() if verdict == NOT_SUPPORTED]
            bad += [f"is below {'it' if more else other} in {' and '.join(worse)}"] if worse else []
        first, second = (good[0], bad[0]) if good and bad else [*good, *bad, "", ""][:2]
        if not first:
            return ""
        if than_base in first:
            second = second.removesuffix(than_base)
        link = ", but " if good and bad else " and " if second else ""
        return f"{self.looks[name].label} {first}{link}{second}."

    def summary(self) -> list[str]:
        """For each split: in which metrics the second method is higher, lower or not distinguishable."""
        if len(self.leading) < 2:
            return []
        other, name = self.leading
        lines = []
        for split in self.spec.splits:
            found: dict[str, list[str]] = {}
            for metric in claimed_metrics(self.comparison, split):
                found.setdefault(self._verdict(name, other, metric, split), []).append(metric_name(metric))
            against = self.looks[other].label
            parts = [f"{words} {against} in {', '.join(found[v])}" for v, words in IN_WORDS.items() if v in found]
            lines += [f"{split_name(split)}: {self.looks[name].label} is {'; '.join(parts)}."] if parts else []
        return lines

    def tiles(self) -> list[Tile]:
        m = self.spec.solved_in
        tiles = [
            self._tile("Pass@1", f"mean@{self.n}", "right at the first try, per cent"),
            self._tile(f"Pass@{m}", f"pass@{m}", f"right at least once in {m} tries, per cent"),
        ]
        if names := self.comparison.samples[BASE][self.split].style_names:
            most = len(names) - 1
            return [*tiles, self._tile("Styles", "styles", f"distinct per question, of {most}", most)]
        return [*tiles, self._tile("Keep rate", "keep_rate", "per cent of what the base solved")]

    def _tile(self, title: str, metric: str, about: str, most: float = 1.0) -> Tile:
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
            floor = self.spec.noise_floor if metric == "keep_rate" else BASE
            verdict = self._verdict(name, floor, "style_entropy" if metric == "styles" else metric)
            share, low, high = (min(100 * v / most, 100) for v in interval)
            words = f"{IN_WORDS[verdict]} the base" if verdict in IN_WORDS else ""
            bars.append(Bar(self.looks[name], text, share, low, high, SIGNS[verdict], words))
        return Tile(title, about, bars)


def style_sentence(comparison: Comparison, looks: dict[str, Look]) -> str:
    """The style in which the base is right most often, and the styles of the leading methods; "" without styles."""
    spec = comparison.spec
    split = spec.splits[0]
    found = comparison.summaries[BASE][split]["style_accuracy"]
    accuracy = {style: interval for style, interval in (found or {}).items() if interval}
    if len(accuracy) < 2:
        return ""
    best, *_, worst = sorted(accuracy, key=lambda style: -accuracy[style][0])
    text = (
        f"The base is right in {100 * accuracy[best][0]:.0f} % of its {best} samples and in "
        f"{100 * accuracy[worst][0]:.0f} % of its {worst} samples."
    )
    for name in leading_methods(spec):
        shares = comparison.summaries[name][split]["style_share"]
        largest = max(shares, key=shares.__getitem__)
        text += f" {looks[name].label} answers in {largest} {100 * shares[largest]:.0f} % of the time"
        text += ", the style that the base is right in most often." if largest == best else "."
    return text
