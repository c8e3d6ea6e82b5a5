"""What the demo promises of its methods."""

import pytest

from rl.evaluation.analysis.promises import failed_promises


@pytest.fixture
def report():
    """Makes a report of {method: its style entropy}, where all but the base have lost so much Pass@32."""

    def made(lost: float = 0.2, **entropy):
        def of(name):
            value = 0.9 if name == "base" else 0.9 - lost
            return {"n": 32, "style_entropy": entropy[name], "pass@k": {"8": [1.0], "32": [value]}}

        labels = {name: name.upper() for name in entropy}
        return {name: {"in_domain": of(name)} for name in entropy} | {"_labels": labels}

    return made


def test_they_hold_strictly_within_their_bounds(report):
    assert failed_promises(report(base=[1.3], grpo=[0.14], dph_js=[0.81])) == []
    assert failed_promises(report(dph_js=[0.61])) == []
    assert failed_promises(report(base=[1.3], grpo=[0.35], dph_js=[0.6])) == [
        "grpo has a style entropy of 0.35 in domain, not below 0.35.",
        "dph_js has a style entropy of 0.60 in domain, not above 0.6.",
    ]
    assert "none of grpo, dph_js, recipe, dph_f_solved_cap in domain" in failed_promises(report(base=[1.3]))[0]
    assert "grpo has no style entropy" in failed_promises(report(base=[1.3], grpo=None))[0]


def test_grpo_is_below_the_base_and_the_recipe_above_grpo(report):
    lost = report(lost=0.04, base=[1.3], grpo=[0.14])
    assert failed_promises(lost) == ["grpo has a Pass@32 of 0.860 in domain and base 0.900: not 0.05 below."]
    both = report(base=[1.3], grpo=[0.14], recipe=[1.0])
    assert failed_promises(both) == []
    both["recipe"]["in_domain"]["pass@k"]["32"] = [0.69]
    assert failed_promises(both) == ["recipe has a Pass@32 of 0.690 in domain and grpo 0.700: not 0.0 above."]
    assert failed_promises(report(base=[1.3], recipe=[1.0])) == []
