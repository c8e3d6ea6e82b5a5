"""The report's figures: what they are computed from, and the specification's keys for them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.common.errors import UserError
from rl.evaluation.analysis.checkpoints import read_progress
from rl.evaluation.analysis.comparison import compare
from rl.evaluation.analysis.transitions import fates, fates_of_split
from rl.evaluation.report.eta_plots import EtaCurves
from rl.evaluation.report.theme import COLOURS, letter, method_looks
from rl.evaluation.report.training_plots import validation_metrics
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import read_spec


@pytest.fixture
def report(made_up_report, tmp_path):
    """Two methods of one family, one without; no styles, so that there is little to read."""
    made = made_up_report(tmp_path, splits=("math",), prompts=8, styles=())
    made.method("base")
    made.method("base_again", model="base")
    made.method("grpo", skill=1)
    made.method("dph_js", skill=1.5, family="DPH-JS", eta=0.2, label="DPH-JS")
    made.method("dph_js_low", skill=1.5, family="DPH-JS", eta=0, label="eta 0")
    return made


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=30))
def test_fates_add_up_and_agree_with_the_keep_rate(prompts):
    solved, reached = (np.array(column) for column in zip(*prompts, strict=True))
    keep_rate, newly_solved = np.where(solved, reached, np.nan), np.where(solved, np.nan, reached)
    parts = fates(keep_rate, newly_solved)
    assert sum(parts.values()) == pytest.approx(1)
    assert parts["kept"] + parts["lost"] == pytest.approx(solved.mean())
    assert parts["new"] == pytest.approx(reached[~solved].sum() / len(prompts))
    if solved.any():
        assert parts["kept"] == pytest.approx(np.nanmean(keep_rate) * solved.mean())


def test_fates_by_hand():
    nan = np.nan
    parts = fates(np.array([1, 0.5, nan, nan]), np.array([nan, nan, 0.25, 0]))
    assert parts == {"kept": 0.375, "lost": 0.125, "new": 0.0625, "never": 0.4375}
    assert fates(np.full(3, nan), np.full(3, nan)) is None


def test_the_noise_floor_is_the_second_draw_or_the_later_samples(report):
    with_second_draw = fates_of_split(compare(read_spec(report.write())), "math")
    assert list(with_second_draw) == ["base_again", "grpo", "dph_js", "dph_js_low"]
    del report.content["methods"]["base_again"]
    assert list(fates_of_split(compare(read_spec(report.write())), "math"))[0] == "base"
    report.content["solved_in"] = 16  # no later samples are left
    assert "base" not in fates_of_split(compare(read_spec(report.write())), "math")
    write_report(read_spec(report.write()), report.folder)
    page = (report.folder / "report.html").read_text()
    assert "There is no noise floor" in page and "First stands" not in page


def test_checkpoints(report):
    report.checkpoint("grpo", 100, skill=3)
    report.checkpoint("grpo", 20, skill=0)
    comparison = compare(read_spec(report.write()))
    steps = read_progress(comparison)["grpo"]["math"]
    assert list(steps) == [0, 20, 100]
    of_base = comparison.summaries["base"]["math"]
    assert steps[0] == {"greedy": of_base["greedy"], "pass@8": of_base["pass@k"]["8"]}
    assert steps[100]["pass@8"][0] > steps[0]["pass@8"][0]
    written = write_report(read_spec(report.write()), report.folder / "out")
    assert json.loads((report.folder / "out" / "report.json").read_text())["_progress"]["grpo"]["math"]["100"]
    page = (report.folder / "out" / "report.html").read_text()
    assert "Pass@8 against training steps" in page and "Greedy against training steps" in page
    assert "_progress" in written


def test_checkpoints_of_other_prompts_are_refused(report, made_up_report):
    report.checkpoint("grpo", 20, skill=1)
    report.prompts = 9
    report.checkpoint("grpo", 40, skill=1)
    comparison = compare(read_spec(report.write()))
    with pytest.raises(UserError, match="grpo_40.0.jsonl and .* hold different prompts"):
        read_progress(comparison)


def test_a_family_needs_two_etas(report):
    curves = EtaCurves.of(read_spec(report.write()))
    assert curves.families == {"DPH-JS": {0.0: ["dph_js_low"], 0.2: ["dph_js"]}}
    assert list(curves.families["DPH-JS"]) == [0.0, 0.2]
    assert curves.references == ["base", "grpo"]
    report.content["methods"]["dph_js_low"]["eta"] = 0.2
    assert EtaCurves.of(read_spec(report.write())).families == {}


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"eta": 0.1}, "method 'grpo' has only one of 'family' and 'eta'"),
        ({"family": "F", "eta": -1}, "method 'grpo' has the 'eta' -1; it must be a number of at least 0"),
        ({"family": "F", "eta": True}, "'eta' of method 'grpo' must be a int or float, not True"),
        ({"checkpoints": {"last": {"splits": {}}}}, "checkpoint 'last' of method 'grpo' is not named by its training"),
        ({"checkpoints": {"0": {"splits": {}}}}, "step 0 is the base"),
        ({"checkpoints": {"20": {"splits": {}}}}, "checkpoint '20' of method 'grpo' has no split"),
        ({"checkpoints": {"20": {}}}, "checkpoint '20' of method 'grpo' lacks 'splits'"),
        ({"checkpoints": {"20": {"splits": {"sql": {"samples": "x"}}}}}, "has the split 'sql', which is none of the"),
    ],
)
def test_faulty_keys(report, entry, sentence):
    report.content["methods"]["grpo"] |= entry
    with pytest.raises(UserError, match=sentence):
        read_spec(report.write())


def test_looks_are_told_apart():
    names = ["base", "base_again", "grpo", "dph_js", *(f"run_{i}" for i in range(10))]
    looks = method_looks({name: name for name in names})
    assert len({look.colour for look in looks.values()}) == len(names)
    assert [look.tag for look in looks.values()] == names
    short = method_looks({"base": "Base", "base_again": "Base, second draw", "grpo": "GRPO"})
    assert [short["base"].tag, short["grpo"].tag] == ["Base", "GRPO"]
    long = method_looks({name: f"{name}, of the second seed" for name in names})
    assert [look.tag for look in long.values()] == list("ABCDEFGHIJKLMN")
    assert [letter(i) for i in (0, 25, 26, 52)] == ["A", "Z", "AA", "BA"]
    assert len({colour.stand_in for colour in COLOURS}) == len({colour.variable for colour in COLOURS}) == len(COLOURS)


def test_validation_in_a_training_log():
    source = "val-core/lighteval/MATH/acc/"
    metrics = [
        f"{source}mean@8",
        f"{source}best@8/mean",
        f"{source}maj@8/mean",
        "val-aux/x/acc/mean@8",
        "actor/entropy",
    ]
    titles = validation_metrics({"grpo": {metric: {10: 0.5} for metric in metrics}})
    assert titles == {f"{source}best@8/mean": "lighteval/MATH: best@8", f"{source}mean@8": "lighteval/MATH: mean@8"}
