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
    value: Interval
    verdict: str


def claims(comparison: Comparison) -> list[Claim]:
    """Every claim that can be judged from a report's methods and splits."""
    spec = comparison.spec
    with_divergence = [name for name in spec.trained if name.startswith(WITH_DIVERGENCE)]
    without = [name for name in spec.trained if name not in with_divergence]
    found = []
    for split in spec.splits:
        judge = _Judge(comparison, split)
        found += [judge.beats_base(name, metric) for metric in ("greedy", "pass@1") for name in spec.trained]
        has_styles = spec.styles_by == BY_PREFIX and comparison.samples[BASE][split].style_names
        if has_styles and split == spec.splits[0]:
            found += [judge.one_style(name) for name in without if name.startswith(REWARD_ONLY)]
            found += [judge.several_styles(name) for name in with_divergence]
        found += [
            judge.higher(name, other, metric)
            for other in without
            for metric in (f"pass@{spec.solved_in}", f"pass@{judge.n}", "keep_rate")
            for name in with_divergence
        ]
        found += [judge.keeps_less_than_noise_floor(name) for name in without]
        found += [judge.keeps_more_than_noise_floor(name) for name in with_divergence]
    return found


class _Judge:
    """Claims about one split."""

    def __init__(self, comparison: Comparison, split: str):
        self.comparison = comparison
        self.split = split
        self.n = comparison.samples[BASE][split].n
        methods = comparison.spec.methods
        self.floor, self.floor_name = (
            (BASE_AGAIN, "a second draw of the base")
            if BASE_AGAIN in methods
            else (BASE, "the base in its later samples")
        )

    def beats_base(self, name: str, metric: str) -> Claim:
        return self._difference(name, BASE, metric, f"beats the base in {metric_name(metric)}")

    def higher(self, name: str, other: str, metric: str) -> Claim:
        label = self.comparison.spec.methods[other].label
        return self._difference(name, other, metric, f"has a higher {metric_name(metric)} than {label}")

    def keeps_less_than_noise_floor(self, name: str) -> Claim:
        predicate = f"forgets: it keeps less than {self.floor_name}"
        return self._difference(name, self.floor, "keep_rate", predicate, above=False)

    def keeps_more_than_noise_floor(self, name: str) -> Claim:
        return self._difference(name, self.floor, "keep_rate", f"keeps more than {self.floor_name}")

    def one_style(self, name: str) -> Claim:
        return self._style_entropy(name, "ends in one style", ONE_STYLE_ENTROPY, above=False)

    def several_styles(self, name: str) -> Claim:
        return self._style_entropy(name, "keeps several styles", SEVERAL_STYLES_ENTROPY, above=True)

    def _difference(self, name: str, other: str, metric: str, predicate: str, above: bool = True) -> Claim:
        value = self.comparison.difference(self.split, metric, name, other)
        measure = f"{metric_name(metric)} minus that of {self.comparison.spec.methods[other].label}"
        return Claim(self.split, name, predicate, measure, "share", value, verdict(value, 0.0, above))

    def _style_entropy(self, name: str, predicate: str, bound: float, above: bool) -> Claim:
        value = self.comparison.summaries[name][self.split]["style_entropy"]
        measure = f"style entropy {'above' if above else 'below'} {bound}"
        return Claim(self.split, name, predicate, measure, "nats", value, verdict(value, bound, above))


def verdict(value: Interval, bound: float, above: bool = True) -> str:
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
