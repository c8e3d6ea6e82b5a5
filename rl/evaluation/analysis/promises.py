"""What the demo promises of its methods in domain, and whether a report holds it."""

import math
from typing import Any, NamedTuple

from rl.evaluation.spec import BASE


class Promise(NamedTuple):
    """Bounds on a method's style entropy, or on its Pass@n minus another method's if both were run."""

    method: str
    minus: str | None = None
    least: float = -math.inf
    most: float = math.inf


# In the demo, after 60 steps with seeds 1 to 3, the entropy of styles was at most .11 with GRPO, .94 to 1.0 with DPH-JS
# at eta 0.5, and .97 to 1.07 with the recipe. GRPO's Pass@32 was .10 to .23 below the base's in ten runs (seeds 1 to 3
# and 31), and the recipe's .07 to .20 above GRPO's in three (seeds 1 to 3).
PROMISES = (
    Promise("grpo", most=0.35),
    Promise("grpo", minus=BASE, most=-0.05),
    Promise("dph_js", least=0.6),
    Promise("recipe", least=0.6),
    Promise("recipe", minus="grpo", least=0.0),
    Promise("dph_f_solved_cap", least=0.6),
    Promise("dph_f_solved_cap", minus="grpo", least=0.0),
)


def failed_promises(report: dict[str, Any]) -> list[str]:
    """One sentence per promise that the report does not hold; methods that were not run are not checked.

    Args:
        report: the content of report.json.
    """
    there = {name for name, of_splits in report.items() if not name.startswith("_") and "in_domain" in of_splits}
    checked = [of for of in PROMISES if {of.method, of.minus or of.method} <= there]
    if not checked:
        methods = ", ".join(dict.fromkeys(of.method for of in PROMISES))
        return [f"The report has none of {methods} in domain, so nothing can be checked: run one of them."]
    return [
        f"{of.method} has a {what} of {value:.3f} in domain, which must be "
        + (f"at most {of.most:g}." if of.most < math.inf else f"at least {of.least:g}.")
        for of in checked
        for what, value in [_measured(report, of)]
        if not _holds(of, value)
    ]


def _holds(promise: Promise, value: float) -> bool:
    """A difference may equal its bound, an entropy may not; NaN holds nothing."""
    if promise.minus is None:
        return promise.least < value < promise.most
    return promise.least <= value <= promise.most


def _measured(report: dict[str, Any], promise: Promise) -> tuple[str, float]:
    """What the promise is about, in words, and its value: NaN for the entropy if no response is correct."""
    summary = report[promise.method]["in_domain"]
    if promise.minus is None:
        return "style entropy", (summary["style_entropy"] or [math.nan])[0]
    n = str(summary["n"])
    value, other = (report[name]["in_domain"]["pass@k"][n][0] for name in (promise.method, promise.minus))
    return f"Pass@{n} minus {promise.minus}'s", value - other
