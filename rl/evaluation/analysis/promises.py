"""What the demo promises of its methods in domain, and whether a report holds it."""

from math import inf, nan
from typing import Any

from rl.evaluation.spec import BASE

# In the demo, after 60 steps with seeds 1 to 3, the entropy of styles was at most .11 with GRPO, .94 to 1.0 with DPH-JS
# at eta 0.5, and .97 to 1.07 with the recipe. GRPO's Pass@32 was .10 to .23 below the base's in ten runs (seeds 1 to 3
# and 31), and the recipe's .07 to .20 above GRPO's in three (seeds 1 to 3).
# {method: bounds of its style entropy, which it may not equal}
ENTROPIES = {"grpo": (-inf, 0.35), "dph_js": (0.6, inf), "recipe": (0.6, inf), "dph_f_solved_cap": (0.6, inf)}
# {(method, other): bounds of the method's Pass@n minus the other's, which it may equal}
DIFFERENCES = {
    ("grpo", BASE): (-inf, -0.05),
    ("recipe", "grpo"): (0.0, inf),
    ("dph_f_solved_cap", "grpo"): (0.0, inf),
}


def failed_promises(report: dict[str, Any]) -> list[str]:
    """One sentence per promise that the report does not hold; methods that were not run are not checked.

    Args:
        report: the content of report.json.
    """
    there = {name: of["in_domain"] for name, of in report.items() if not name.startswith("_") and "in_domain" in of}
    failed = []
    for name in (name for name in ENTROPIES if name in there):
        entropy = (there[name]["style_entropy"] or [nan])[0]  # undefined if no response is correct
        least, most = ENTROPIES[name]
        if not least < entropy < most:
            failed.append(_sentence(f"{name} has a style entropy", entropy, least, most))
    for (name, other), (least, most) in DIFFERENCES.items():
        if {name, other} <= there.keys():
            n = str(there[name]["n"])
            value, minus = (there[of]["pass@k"][n][0] for of in (name, other))
            if not least <= value - minus <= most:
                failed.append(_sentence(f"{name} has a Pass@{n} minus {other}'s", value - minus, least, most))
    if not there.keys() & ENTROPIES.keys():
        return [f"The report has none of {', '.join(ENTROPIES)} in domain, so nothing can be checked: run one of them."]
    return failed


def _sentence(what: str, value: float, least: float, most: float) -> str:
    bound = f"at most {most:g}" if most < inf else f"at least {least:g}"
    return f"{what} of {value:.3f} in domain, which must be {bound}."
