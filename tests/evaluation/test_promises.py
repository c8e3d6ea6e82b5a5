"""What the demo promises of its methods."""

import pytest

from rl.evaluation.analysis.promises import failed_promises, held_promises


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
    assert "none of grpo, dph_js, dph_f_solved_cap in domain" in failed_promises(report(base=[1.3]))[0]
    assert "grpo has no style entropy" in failed_promises(report(base=[1.3], grpo=None))[0]


def test_grpo_loses_pass_at_n_and_the_recipe_does_not(report):
    [failure] = failed_promises(report(lost=0.04, base=[1.3], grpo=[0.14], dph_f_solved_cap=[1.0]))
    assert failure == "grpo has a Pass@32 of 0.860 in domain, and the base 0.900: not 0.05 more."
    [failure] = failed_promises(report(lost=0.06, base=[1.3], grpo=[0.14], dph_f_solved_cap=[1.0]))
    assert failure == "dph_f_solved_cap has a Pass@32 of 0.840 in domain, and the base 0.900: at least 0.05 more."


def test_what_holds_is_said_of_the_methods_that_were_run(report):
    found = held_promises(report(base=[1.3], grpo=[0.14], dph_js=[0.81], dph_f_solved_cap=[1.0], dapo=[0.1]))
    assert found == [
        "GRPO ends in one style and loses Pass@32",
        "DPH_JS keeps several styles",
        "DPH_F_SOLVED_CAP keeps several styles and keeps Pass@32",
    ]
