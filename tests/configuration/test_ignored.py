"""Set variables that change nothing for a run."""

import pytest

from rl.configuration.arguments import run_of
from rl.configuration.ignored import ignored

pytestmark = pytest.mark.usefixtures("environment")


def test_variables_of_other_methods():
    given = {
        "ALPHA": "0.2",
        "SUCCESS_CAP": ".6",
        "PKPO_K": "",
        "TOTAL_STEPS": "3",
        "SFT_COVERAGE": "solved",
        "EXPLORED": "all",
    }
    of_cap, of_alpha = run_of("js_kl_cap", ["my_run"]), run_of("alpha", ["my_run"])
    assert list(ignored(of_cap, given)) == ["ALPHA is set, but js_kl_cap does not read it: alpha would."]
    expected = ["SUCCESS_CAP is set, but alpha does not read it: forward_kl_cap, grpo_cap, js_kl_cap would."]
    assert list(ignored(of_alpha, given)) == expected
    [of_eta] = ignored(run_of("grpo", ["my_run"]), {"SFT_LOSS_COEFF": "0.2"})
    assert "js_kl, js_kl_cap" in of_eta
    assert not list(ignored(run_of("grpo", ["my_run"]), {"EXPLORED": "all"}))  # the launcher rejects it
    scorer = {"DPH_SCORER": "http://s:1", "DATABASE_PATH": "/mine"}
    [of_scorer] = ignored(run_of("grpo", ["my_run"]), scorer)
    assert of_scorer == "DATABASE_PATH is set, but DPH_SCORER names a scorer that runs already: it changes nothing."
    assert not list(ignored(run_of("grpo", ["my_run"]), {"DATABASE_PATH": "/mine"}))
    # The experiment reads both, and each is of some methods.
    [of_clip] = ignored(run_of("grpo", ["my_run"]), {"CLIP_HIGH": "0.3", "GRPO_CLIP_HIGH": "0.3", "SEED": "2"})
    assert of_clip.startswith("CLIP_HIGH is set, but grpo does not use it: ") and ", js_kl, " in of_clip
    [of_clip] = ignored(run_of("js_kl", ["my_run"]), {"CLIP_HIGH": "0.3", "GRPO_CLIP_HIGH": "0.3"})
    assert of_clip.startswith("GRPO_CLIP_HIGH is set, but js_kl does not use it: ") and ", grpo, " in of_clip
    assert not list(ignored(run_of("get_correct_data_tensor", []), given))  # it trains nothing
    # A file that comes first has a value in its place.
    [of_file] = ignored(run_of("chord_mu", ["my_run"]), {"SFT_NORMALIZATION": "joint"})
    assert of_file.startswith(
        "SFT_NORMALIZATION is set, but the files of chord_mu and llama_sql have a value of their own"
    )
