"""The method's claims, each judged by a paired difference or a value with its interval."""

from dataclasses import dataclass

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.spec import BASE, BASE_AGAIN
from rl.metrics.bootstrap import Interval
from rl.metrics.styles import BY_PREFIX

# Style entropy, for styles read from a prefix: of a policy with one style, and of one that keeps several (measured on
# every base, seed and length tried: below .3 without a divergence term, above .6 with DPH at eta 0.2).
ONE_STYLE_ENTROPY = 0.35
SEVERAL_STYLES_ENTROPY = 0.6

WITH_DIVERGENCE = "dph"
# Methods trained on the reward alone; a reverse KL baseline is in neither group.
REWARD_ONLY = ("grpo", "dapo")

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


def claims(comparison: Comparison) -> list[Claim]:
    """Every claim that can be judged from a report's methods and splits."""
    spec = comparison.spec
    with_divergence = [name for name in spec.trained if name.startswith(WITH_DIVERGENCE)]
    without = [name for name in spec.trained if name not in with_divergence]
    floor, floor_name = (BASE, "the base in its later samples")
    if BASE_AGAIN in spec.methods:
        floor, floor_name = BASE_AGAIN, "a second draw of the base"
    found = []

    def difference(split: str, name: str, other: str, metric: str, predicate: str, above: bool = True) -> None:
        value = comparison.difference(split, metric, name, other)
        measure = f"{metric_name(metric)} minus that of {spec.methods[other].label}"
        found.append(Claim(split, name, predicate, measure, "share", value, verdict(value, 0.0, above)))

    def style_entropy(split: str, name: str, predicate: str, bound: float, above: bool) -> None:
        value = comparison.summaries[name][split]["style_entropy"]
        measure = f"style entropy {'above' if above else 'below'} {bound}"
        found.append(Claim(split, name, predicate, measure, "nats", value, verdict(value, bound, above)))

    for split in spec.splits:
        base = comparison.samples[BASE][split]
        for metric in ("greedy", "pass@1"):
            for name in spec.trained:
                difference(split, name, BASE, metric, f"beats the base in {metric_name(metric)}")
        if spec.styles_by == BY_PREFIX and base.style_names and split == spec.splits[0]:
            for name in (name for name in without if name.startswith(REWARD_ONLY)):
                style_entropy(split, name, "ends in one style", ONE_STYLE_ENTROPY, above=False)
            for name in with_divergence:
                style_entropy(split, name, "keeps several styles", SEVERAL_STYLES_ENTROPY, above=True)
        for other in without:
            for metric in (f"pass@{spec.solved_in}", f"pass@{base.n}", "keep_rate"):
                predicate = f"has a higher {metric_name(metric)} than {spec.methods[other].label}"
                for name in with_divergence:
                    difference(split, name, other, metric, predicate)
        for name in without:
            difference(split, name, floor, "keep_rate", f"forgets: it keeps less than {floor_name}", above=False)
        for name in with_divergence:
            difference(split, name, floor, "keep_rate", f"keeps more than {floor_name}")
    return found


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
    """A metric's name in running text."""
    return {"greedy": "greedy accuracy", "keep_rate": "keep rate"}.get(metric, metric.capitalize())


def assert_styles(report: dict) -> list[str]:
    """Check the demo's one assertion: in domain, GRPO ends in one style and DPH-JS keeps several.

    Args:
        report: the content of report.json.

    Returns:
        One sentence per failure. A method that was not run is not checked; having neither of the two is a failure.
    """
    entropy = {
        name: report[name]["in_domain"]["style_entropy"]
        for name in ("grpo", "dph_js")
        if "in_domain" in report.get(name, {})
    }
    if not entropy:
        return ["The report has neither grpo nor dph_js in domain, so their styles cannot be checked; run one of them."]
    failures = [
        f"{name} has no style entropy in domain: none of its responses is correct, or the task has no styles."
        for name, value in entropy.items()
        if value is None
    ]
    grpo, dph_js = entropy.get("grpo"), entropy.get("dph_js")
    if grpo and grpo[0] >= ONE_STYLE_ENTROPY:
        failures.append(f"grpo keeps a style entropy of {grpo[0]:.2f} in domain, not below {ONE_STYLE_ENTROPY}.")
    if dph_js and dph_js[0] <= SEVERAL_STYLES_ENTROPY:
        failures.append(f"dph_js has a style entropy of {dph_js[0]:.2f} in domain, not above {SEVERAL_STYLES_ENTROPY}.")
    return failures
