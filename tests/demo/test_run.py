"""What the demo prints at its end."""

import pytest

from rl.demo import run


@pytest.fixture
def report() -> dict:
    """One method."""

    def of(pass_at_1):
        passed = {"1": [pass_at_1, 0.3, 0.6], "8": [0.875, 0.8, 1.0], "32": [1.0, 1.0, 1.0]}
        greedy, styles = [0.617, 0.5, 0.7], (4.12, 3.96, 4.25)
        found = {"n": 32, "prompts": 96, "greedy": greedy, "pass@k": passed, "styles": styles}
        return dict.fromkeys(("in_domain", "out_of_domain"), found)

    return {"base": of(0.4), "dph_js": of(0.5), "_labels": {"base": "Base", "dph_js": "DPH-JS"}, "_solved_in": 8}


def test_the_table_has_a_row_per_model_and_both_domains(report):
    assert run.results_table(report).splitlines() == [
        "In per cent of 96 questions, and of 96 about what training never saw (new):",
        "Model   Greedy  Pass@1  Pass@8  Pass@32  Styles  new Pass@1  new Pass@8  new Pass@32",
        "Base      61.7    40.0    87.5    100.0    4.12        40.0        87.5        100.0",
        "DPH-JS    61.7    50.0    87.5    100.0    4.12        50.0        87.5        100.0",
    ]


def test_the_end_says_whether_the_promises_hold(report, capsys):
    for entropy, code in ((0.7, 0), (0.5, 1)):
        report["dph_js"]["in_domain"]["style_entropy"] = [entropy] * 3
        assert run.check(report) == code and ("Self-test passed" in capsys.readouterr().out) == (not code)


@pytest.mark.parametrize("words", [["--seed", "-1"], ["--steps", "ten"]])
def test_a_number_that_is_out_of_range_is_named(words, capsys):
    with pytest.raises(SystemExit):
        run.parser().parse_args(words)
    assert f"argument {words[0]}: '{words[1]}' is not a whole number from" in capsys.readouterr().err


def test_a_model_that_is_not_there_is_rejected_before_the_first_stage(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MODEL_PATH", f"{tmp_path}/none")
    with pytest.raises(SystemExit) as ended:
        run.main(["--model", "smollm2", "--out", str(tmp_path / "out")])
    assert ended.value.code == 2 and not (tmp_path / "out" / "task").exists()
    [sentence] = capsys.readouterr().err.splitlines()
    assert sentence.startswith("Error: ") and f"{tmp_path}/none" in sentence
