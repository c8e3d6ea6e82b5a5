"""The sentences of a page: its headline and summary, which say what findings.py finds, and those on styles."""

import numpy as np

from rl.common.text import listed
from rl.evaluation.analysis.claims import LOWER, SUPPORTED, metric_name
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.findings import Findings, Sides, leading_methods
from rl.evaluation.report.theme import Look
from rl.evaluation.spec import BASE, split_name
from rl.metrics.bootstrap import mean_interval
from rl.metrics.styles import OTHERS, style_counts

LEAST_SHARE = 0.02  # of the base's samples: the sentences on its accuracy leave out rarer styles
STYLES, PAIR, TO_BASE = "styles", "pair", "base"  # kinds of sentences
BESIDE = {SUPPORTED: "above", LOWER: "below"}


class Headline:
    """
    Args:
        looks: {method: its look}, with short names.
    """

    def __init__(self, findings: Findings, looks: dict[str, Look]):
        self.findings, self.leading, self.base = findings, findings.leading, findings.comparison.samples[BASE]
        self.labels = {name: look.label for name, look in looks.items()}
        self.split, *self.further = findings.comparison.spec.splits

    def title(self) -> str:
        """The findings on the first split."""
        if not self.leading:
            return f"{self.labels[BASE]} on {self.base[self.split].prompts} questions"
        return " ".join(self._sentences(self.split).values()) or self._no_difference(self.split)

    def summary(self) -> list[str]:
        """A line for each further split, without what the title says; then what may be chance between two methods."""
        if not self.leading:
            return []
        first, where, lines = self._sentences(self.split), split_name(self.split).lower(), []
        for split in self.further:
            found = self._sentences(split)
            if found == first:
                text = f"the same as {where}."
            else:
                same = {kind for kind, sentence in found.items() if first.get(kind) == sentence}
                said = [sentence for kind, sentence in found.items() if kind not in same]
                said += [f"{self._subject(kind)}: the same as {where}." for kind in found if kind in same]
                text = " ".join(said) or self._no_difference(split)
            lines.append(f"{split_name(split)}: {text}")
        chance: dict[str, list[str]] = {}
        for split in (self.split, *self.further):
            if metrics := self.findings.by_chance(split):
                names = [
                    "number of styles" if metric == "style_diversity" else metric_name(metric) for metric in metrics
                ]
                chance.setdefault(listed(names), []).append(split_name(split).lower())
        parts = [f"{metrics} ({listed(splits)})" for metrics, splits in chance.items()]
        return [*lines, f"{self._both()} may differ by chance in {'; in '.join(parts)}."] if parts else lines

    def _sentences(self, split: str) -> dict[str, str]:
        """{kind: sentence} of what is significant on a split, among STYLES, PAIR and TO_BASE."""
        found = {STYLES: self._styles(split), PAIR: self._pair(split), TO_BASE: self._to_base(split)}
        return {kind: sentence for kind, sentence in found.items() if sentence}

    def _styles(self, split: str) -> str:
        summaries = self.findings.comparison.summaries
        parts = [
            (self._label(name), f"{summaries[name][split]['styles'][0]:.1f}") for name in self.findings.styles(split)
        ]
        if not parts:
            return ""
        (first, number), *others = parts
        also = listed([f"{label} in {of_other}" for label, of_other in others])
        return f"{_capitalised(first)} gives right answers in {number} styles a question, {also}."

    def _pair(self, split: str) -> str:
        sides = self.findings.pair(split)
        if not sides:
            return ""
        other, name = (self.labels[method] for method in self.leading)
        plain = {metric: sides.pop(metric) for metric in self.findings.plain(split) if metric in sides}
        parts = [self._phrase(split, plain, f" than {other}")] if plain else []
        for side, beside in BESIDE.items():
            if metrics := [metric_name(metric) for metric, of_metric in sides.items() if of_metric == side]:
                parts.append(f"is {beside} {'it' if parts else other} in {listed(metrics)}")
        return f"{name} {', but '.join(parts)}."

    def _to_base(self, split: str) -> str:
        found, plain = self.findings.to_base(split), {*self.findings.plain(split)}
        in_plain = any(plain & sides.keys() for sides in found.values())
        clauses = self._in_plain_metrics(split, found) if in_plain else self._in_other_metrics(found)
        return f"{_capitalised('; '.join(clauses))}." if clauses else ""

    def _in_plain_metrics(self, split: str, found: dict[str, Sides]) -> list[str]:
        """A finding on both methods has one clause."""
        first, *others = found.values()
        shared = {metric: side for metric, side in first.items() if others and others[0].get(metric) == side}
        subjects = {"both": shared} | {
            self.labels[name]: {metric: side for metric, side in sides.items() if metric not in shared}
            for name, sides in found.items()
        }
        clauses: list[str] = []
        for subject, sides in ((subject, sides) for subject, sides in subjects.items() if sides):
            than = "" if clauses else " than the base"
            clauses.append(f"{subject} {self._phrase(split, sides, than, plural=subject == 'both')}")
        return clauses

    def _in_other_metrics(self, found: dict[str, Sides]) -> list[str]:
        clauses: dict[str, list[str]] = {}
        for side, beside in BESIDE.items():
            for name, sides in found.items():
                if metrics := [metric_name(metric) for metric, of_metric in sides.items() if of_metric == side]:
                    clauses.setdefault(f"{beside} the base in {listed(metrics)}", []).append(self.labels[name])
        return [f"{listed(names)} {'is' if len(names) == 1 else 'are'} {what}" for what, names in clauses.items()]

    def _phrase(self, split: str, sides: Sides, than: str, plural: bool = False) -> str:
        """What methods do more or less than others in plain metrics."""
        are, solve = ("are", "solve") if plural else ("is", "solves")
        right, solved = self.findings.plain(split)
        tries = f"questions in {self.base[split].n} tries"
        words = {
            right: {SUPPORTED: f"{are} right more often", LOWER: f"{are} right less often"},
            solved: {SUPPORTED: f"{solve} more {tries}", LOWER: f"{solve} fewer {tries}"},
        }
        first, *others = (words[metric][side] for metric, side in sides.items())
        link = " and " if len(set(sides.values())) == 1 else ", but "
        return link.join([first + than, *others])

    def _subject(self, kind: str) -> str:
        return {STYLES: "Styles", PAIR: self._both(), TO_BASE: "Against the base"}[kind]

    def _both(self) -> str:
        return listed([self.labels[name] for name in self.leading])

    def _label(self, name: str) -> str:
        return "the base" if name == BASE else self.labels[name]

    def _no_difference(self, split: str) -> str:
        names = listed([self._label(name) for name in (BASE, *self.leading)])
        others = list(dict.fromkeys(map(metric_name, self.findings.anywhere(split))))
        apart = f", except in {listed(others)}" if others else ""
        prompts = self.base[split].prompts
        where = "this question" if prompts == 1 else f"these {prompts} questions"
        return f"No difference between {names} is beyond chance on {where}{apart}."


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
