"""What the demo promises of its methods in domain, and whether a report holds it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rl.evaluation.spec import BASE

# Bounds on the entropy of styles. In the demo, after 60 steps with seeds 1 to 3, it was at most .11 with GRPO, .94 to
# 1.0 with DPH-JS at eta 0.5, and .97 to 1.07 with the recipe.
ONE_STYLE_ENTROPY, SEVERAL_STYLES_ENTROPY = 0.35, 0.6
# How far Pass@n is at least below or above another method's. In the demo GRPO's Pass@32 was .10 to .23 below the base's
# in ten runs (seeds 1 to 3 and 31), and the recipe's .07 to .20 above GRPO's in three (seeds 1 to 3).
BELOW, ABOVE = 0.05, 0.0


@dataclass(frozen=True)
class Promise:
    """Of a method.

    Attributes:
        several_styles: whether it keeps several styles, or ends in one.
        below, above: the method that its Pass@n is BELOW or more below, or ABOVE or more above, if both were run.
    """

    several_styles: bool
    below: str | None = None
    above: str | None = None


PROMISES = {
    "grpo": Promise(several_styles=False, below=BASE),
    "dph_js": Promise(several_styles=True),
    "recipe": Promise(several_styles=True, above="grpo"),
    "dph_f_solved_cap": Promise(several_styles=True, above="grpo"),
}


def failed_promises(report: dict[str, Any]) -> list[str]:
    """One sentence per promise that the report does not hold.

    A method that was not run is not checked; if none was run, that is a failure.

    Args:
        report: the content of report.json.
    """
    if not (found := _in_domain(report)):
        return [f"The report has none of {', '.join(PROMISES)} in domain, so nothing can be checked; run one of them."]
    return [sentence for name, summary in found.items() for sentence in _failed(report, name, summary)]


def _in_domain(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """{method: its summary in domain} of the promises' methods that the report has."""
    found = {name: report.get(name, {}).get("in_domain") for name in PROMISES}
    return {name: summary for name, summary in found.items() if summary}


def _failed(report: dict[str, Any], name: str, summary: dict[str, Any]) -> Iterator[str]:
    promise, entropy = PROMISES[name], summary["style_entropy"]
    side, bound = ("above", SEVERAL_STYLES_ENTROPY) if promise.several_styles else ("below", ONE_STYLE_ENTROPY)
    if entropy is None:
        yield f"{name} has no style entropy in domain: no correct response, or a task without styles."
    elif not (entropy[0] > bound if promise.several_styles else entropy[0] < bound):
        yield f"{name} has a style entropy of {entropy[0]:.2f} in domain, not {side} {bound}."
    n = str(summary["n"])
    for side, other, least in (("below", promise.below, BELOW), ("above", promise.above, ABOVE)):
        if other in report:
            value, against = (of["pass@k"][n][0] for of in (summary, report[other]["in_domain"]))
            if (against - value if side == "below" else value - against) < least:
                yield f"{name} has a Pass@{n} of {value:.3f} in domain and {other} {against:.3f}: not {least} {side}."
