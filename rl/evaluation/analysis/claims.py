"""What a report claims: where each method is better and where it is worse, and how many styles it ends in.

Methods are compared in both directions, in the metrics of METRICS on every split. A difference counts as higher or
lower only if it holds after Holm's correction over the metrics of the pair of methods on that split (paired_test.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.spec import BASE, BASE_AGAIN
from rl.metrics.bootstrap import LEVEL, Interval
from rl.metrics.styles import BY_PREFIX

# Style entropy, for styles read from a prefix: of a policy with one style, and of one that keeps several (measured on
# every base, seed and length tried: below .3 without a divergence term, above .6 with DPH at eta 0.2).
ONE_STYLE_ENTROPY = 0.35
SEVERAL_STYLES_ENTROPY = 0.6

# Methods trained on the reward alone; a reverse KL baseline is in neither group.
REWARD_ONLY = ("grpo", "dapo")

HIGHER, LOWER, EQUAL, NOT_SIGNIFICANT = "higher", "lower", "equal", ", not significant"
SEEN, NOT_SEEN, NOT_MEASURED = "seen", "not seen", "not measured"


@dataclass(frozen=True)
class Claim:
    """A predicate of a method on a split, its measured [value, low, high], and the verdict."""

    split: str
    method: str
    predicate: str
    measure: str
    unit: str  # "share" (a paired difference of shares) or "nats"
    value: Interval | None
    verdict: str
    p_holm: float | None = None  # of a difference


def claims(comparison: Comparison, tests: Sequence[PairedTest]) -> list[Claim]:
    """Every claim that can be judged from a report's methods and splits.

    Args:
        tests: as paired_tests returns them.
    """
    spec = comparison.spec
    tested = {(test.split, test.first, test.second, test.metric): test for test in tests}
    found = []

    def difference(split: str, name: str, other: str, metric: str) -> None:
        test = tested.get((split, name, other, metric))
        value, p_holm = (test.difference, test.p_holm) if test else (None, None)
        against = "a second draw of the base" if other == BASE_AGAIN else spec.methods[other].label
        if (other, metric) == (BASE, "keep_rate"):
            against = "the base in its later samples"
        predicate, measure = f"{metric_name(metric)} against {against}", "difference in percentage points"
        found.append(Claim(split, name, predicate, measure, "share", value, compared(value, p_holm), p_holm))

    def style_entropy(split: str, name: str, predicate: str, bound: float, above: bool) -> None:
        value = comparison.summaries[name][split]["style_entropy"]
        measure = f"style entropy {'above' if above else 'below'} {bound}"
        found.append(Claim(split, name, predicate, measure, "nats", value, verdict(value, bound, above)))

    for split in spec.splits:
        base = comparison.samples[BASE][split]
        accuracy = ("greedy", f"mean@{base.n}")
        for metric, other in (*((metric, BASE) for metric in accuracy), ("keep_rate", spec.noise_floor)):
            for name in spec.trained:
                difference(split, name, other, metric)
        for other in spec.without_divergence:
            for metric in dict.fromkeys((*accuracy, f"pass@{spec.solved_in}", f"pass@{base.n}", "keep_rate")):
                for name in spec.with_divergence:
                    difference(split, name, other, metric)
        if spec.styles_by == BY_PREFIX and base.style_names and split == spec.splits[0]:
            for name in (name for name in spec.without_divergence if name.startswith(REWARD_ONLY)):
                style_entropy(split, name, "ends in one style", ONE_STYLE_ENTROPY, above=False)
            for name in spec.with_divergence:
                style_entropy(split, name, "keeps several styles", SEVERAL_STYLES_ENTROPY, above=True)
    return found


def compared(difference: Interval | None, p_holm: float | None) -> str:
    """Which of two methods is higher, if the difference holds after Holm's correction and in its own interval."""
    if difference is None or p_holm is None:
        return NOT_MEASURED
    mean, low, high = difference
    if mean == 0:
        return EQUAL
    side = HIGHER if mean > 0 else LOWER
    return side if p_holm <= 1 - LEVEL and not low <= 0 <= high else side + NOT_SIGNIFICANT


def verdict(value: Interval | None, bound: float, above: bool) -> str:
    """Verdict of the claim that a value lies above (or below) a bound, by its mean and by its whole interval."""
    if value is None:
        return NOT_MEASURED
    mean, low, high = value
    beyond, whole_interval = (mean > bound, low > bound) if above else (mean < bound, high < bound)
    if not beyond:
        return NOT_SEEN
    return SEEN if whole_interval else f"seen, but interval includes {bound:g}"


def metric_name(metric: str) -> str:
    """A metric's name in running text; the mean of all samples is Pass@1."""
    if metric.startswith("mean@"):
        return "Pass@1"
    return {"greedy": "greedy accuracy", "keep_rate": "keep rate"}.get(metric, metric.capitalize())


def comparisons_text(report: dict) -> str:
    """The compared methods of a report as text: a line per method and metric, the verdict of each split beside it.

    Args:
        report: the content of report.json.
    """
    import pandas as pd  # loads slowly

    rows: dict[str, dict[str, str]] = {}
    for claim in (claim for claim in report["_claims"] if claim["unit"] == "share"):
        of_row = rows.setdefault(f"{report['_labels'][claim['method']]}: {claim['predicate']}", {})
        value = f"{100 * claim['value'][0]:+.1f} " if claim["value"] else ""
        of_row[claim["split"].replace("_", " ")] = value + claim["verdict"]
    about = "Differences in percentage points; significant: p at most .05 after Holm's correction."
    return f"{about}\n{pd.DataFrame.from_dict(rows, orient='index').to_string(na_rep='')}\n"


def assert_styles(report: dict) -> list[str]:
    """Check the demo's one assertion: in domain, GRPO ends in one style and DPH-JS keeps several.

    Args:
        report: the content of report.json.

    Returns:
        One sentence per failure. A method that was not run is not checked; having neither of the two is a failure.
    """
    bounds = (("grpo", "below", ONE_STYLE_ENTROPY), ("dph_js", "above", SEVERAL_STYLES_ENTROPY))
    checks = [check for check in bounds if "in_domain" in report.get(check[0], {})]
    if not checks:
        return ["The report has neither grpo nor dph_js in domain, so their styles cannot be checked; run one of them."]
    failures = []
    for name, side, bound in checks:
        value = report[name]["in_domain"]["style_entropy"]
        if value is None:
            failures.append(f"{name} has no style entropy in domain: no correct response, or a task without styles.")
        elif not (value[0] < bound if side == "below" else value[0] > bound):
            failures.append(f"{name} has a style entropy of {value[0]:.2f} in domain, not {side} {bound}.")
    return failures
