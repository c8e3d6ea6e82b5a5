"""What the demo promises of its methods."""

import pytest

from rl.evaluation.analysis.promises import failed_promises


def report(entropy: dict[str, float | None], solved: dict[str, float] | None = None) -> dict:
    """A report of methods with this style entropy and, where it is not .8, this Pass@32."""

    def of(name: str) -> dict:
        found = entropy[name]
        pass_at = {"8": [1.0], "32": [(solved or {}).get(name, 0.8)]}
        return {"n": 32, "style_entropy": None if found is None else [found], "pass@k": pass_at}

    return {name: {"in_domain": of(name)} for name in entropy} | {"_labels": {}}


@pytest.mark.parametrize(
    ("made", "failed"),
    [
        (report({"dph_js": 0.61}), []),
        (report({"base": 1.3, "grpo": 0.14, "recipe": 1.0}, {"base": 0.9}), []),
        (report({"grpo": 0.36, "dph_js": 0.59}), ["grpo has a style entropy", "dph_js has a style entropy"]),
        (report({"grpo": 0.0, "recipe": 0.6}), ["recipe has a style entropy of 0.600 in domain, which must be"]),
        (report({"grpo": None}), ["grpo has a style entropy of nan in domain"]),
        (report({"base": 1.3}), ["The report has none of grpo, dph_js, recipe, dph_f_solved_cap in domain"]),
        (report({"base": 1.3, "grpo": 0.1}, {"base": 0.84}), ["grpo has a Pass@32 minus base's of -0.040"]),
        (report({"grpo": 0.1, "recipe": 1.0}, {"recipe": 0.79}), ["recipe has a Pass@32 minus grpo's of -0.010"]),
    ],
)
def test_what_a_report_does_not_hold(made, failed):
    found = failed_promises(made)
    assert len(found) == len(failed) and all(map(str.startswith, found, failed)), found
