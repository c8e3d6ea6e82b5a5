"""What the demo prints at its end."""

import json
import shlex
from dataclasses import replace

import pytest

from rl import cli
from rl.demo import run
from rl.demo.models import SMOLLM2, TINY
from rl.demo.study import IN_DOMAIN_QUESTIONS, STEPS


def summary(prompts: int, pass_at_1: float, styles: tuple | None) -> dict:
    passed = {"1": [pass_at_1, pass_at_1 - 0.1, pass_at_1 + 0.1], "8": [0.875, 0.8, 1.0], "32": [1.0, 1.0, 1.0]}
    return {"n": 32, "prompts": prompts, "greedy": [0.617, 0.5164, 0.7135], "pass@k": passed, "styles": styles}


@pytest.fixture
def report() -> dict:
    """Two methods; the questions in domain are in groups, those out of domain are not."""

    def method(pass_at_1):
        groups = {"ambiguous": summary(48, pass_at_1 / 2, None), "plain": summary(48, pass_at_1 * 1.5, (2.0, 1.5, 2.5))}
        whole = summary(96, pass_at_1, (4.12, 3.96, 4.25))
        return {"in_domain": whole | {"groups": {"ambiguous": groups}}, "out_of_domain": whole}

    return {
        "base": method(0.4),
        "dph_js": method(0.5),
        "_labels": {"base": "Base", "dph_js": "DPH-JS"},
        "_tests": [
            {"split": "in_domain", "first": "dph_js", "second": "base", "metric": "pass@8"}
            | {"difference": [0.1, 0.05, 0.15], "verdict": "higher"}
        ],
        "_solved_in": 8,
    }


def test_the_table_has_both_domains_and_every_group_of_questions(report):
    blocks = run.results_tables(report).split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == [
        f"{questions}, 32 samples each, with 95 % intervals over questions."
        for questions in (
            "In domain: 96 questions",
            "In domain: 48 ambiguous questions",
            "In domain: 48 plain questions",
            "Out of domain: 96 questions",
        )
    ]
    assert blocks[0].splitlines()[1:] == [
        "Model       Greedy      Pass@1       Pass@8        Pass@32        Styles",
        "Base    61.7 52-71  40.0 30-50  87.5 80-100  100.0 100-100  4.12 4.0-4.2",
        "DPH-JS  61.7 52-71  50.0 40-60  87.5 80-100  100.0 100-100  4.12 4.0-4.2",
    ]
    assert "40.0 30-50" not in blocks[1] and "20.0 10-30" in blocks[1]
    assert "Styles" not in blocks[1] and "Styles" in blocks[2]  # where no model has a value


def test_the_command_of_a_report_names_the_model(tmp_path):
    smaller = replace(SMOLLM2, train=8)
    demo = run.Demo(tmp_path, ["grpo"], steps=2, seed=1, model=smaller, model_path="my models/a")
    variable, program, *words = shlex.split(demo.command(["grpo"]))
    assert (variable, program) == ("MODEL_PATH=my models/a", "dph")
    name, arguments = cli.resolve(words)
    assert cli.parser_of(name).parse_args(arguments).model == "smollm2"
    tiny = run.Demo(tmp_path, ["grpo"], steps=2, seed=1).command(["grpo"])
    assert tiny.startswith("dph demo ") and "--model" not in tiny


def test_the_report_names_the_methods_that_are_missing_and_no_others(tmp_path):
    def missing(*methods: str) -> list[str]:
        demo = run.Demo(tmp_path, [*methods], steps=2, seed=1)
        return demo.caveats[len(demo.model.caveats) :]

    [both], [one] = missing("grpo"), missing("grpo", "dph_js")
    assert "--methods grpo,dph_js,dapo_exp " in both and both.endswith(
        " adds the paper's DPH-JS and DAPO on D_exp, which differs from DPH-JS only by the divergence."
    )
    assert "--methods grpo,dph_js,dapo_exp " in one and " adds DAPO on D_exp, " in one
    assert missing("dph_js", "dapo_exp") == []


def test_the_report_says_what_the_studys_means_are_of():
    assert f"of {STEPS} steps on {IN_DOMAIN_QUESTIONS} questions" in TINY.caveats[0]


def test_the_end_says_what_holds_and_where_to_go_on(report, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    demo = run.Demo(tmp_path / "out", ["grpo", "dph_js"], steps=60, seed=1)
    (tmp_path / "out" / "report.json").write_text(json.dumps(report))
    run._print_summary(demo, [], 444)
    printed = capsys.readouterr().out
    said = "\nSelf-test passed (fixed thresholds, not significance).\n7.4 minutes.\nReport: out/report.html\nNext:\n"
    assert said in printed
    assert "DPH-JS: Pass@8  +10.0 higher" in printed and "dph_js" not in printed.partition("Next:")[0]
    run._print_summary(demo, ["grpo has a style entropy of 0.50 in domain."], 444)
    assert "Self-test passed" not in capsys.readouterr().out
    commands = [line.partition("  # ")[0] for line in printed.partition("Next:\n")[2].splitlines()]
    assert len(commands) == 3
    for command in commands:
        program, *words = shlex.split(command)
        assert program.endswith("/dph")
        name, arguments = cli.resolve(words)
        parsed = cli.parser_of(name).parse_args(arguments)
        assert name != "demo" or (parsed.methods, parsed.steps) == ("grpo,dph_js,dapo_exp", 60)


@pytest.mark.parametrize(("folder", "shown"), [("out", "out"), ("../elsewhere/demo", "{tmp_path}/elsewhere/demo")])
def test_paths_outside_the_working_directory_are_absolute(report, capsys, tmp_path, monkeypatch, folder, shown):
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    shown = shown.format(tmp_path=tmp_path)
    demo = run.Demo((tmp_path / "checkout" / folder).resolve(), ["grpo"], steps=2, seed=1)
    (demo.out / "report.json").write_text(json.dumps(report))
    run._print_summary(demo, [], 444)
    end = capsys.readouterr().out.partition("Report: ")[2]
    assert end.startswith(f"{shown}/report.html\n") and "../" not in end
    assert f" --out {shown} " in end and f" {shown}/data/pef.pt " in end
    assert f"dph demo --out {shown} " in demo.command(["grpo"]) and f" --out {shown} " in demo.caveats[-1]


def test_a_method_that_the_task_does_not_fit_is_rejected_before_the_first_stage(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        run.main(["--model", "smollm2", "--methods", "grpo,chord_mu", "--out", str(tmp_path / "out")])
    assert ended.value.code == 2 and not (tmp_path / "out").exists()
    assert (
        "--methods names chord_mu, whose expert responses only the task of --model tiny has" in capsys.readouterr().err
    )


def test_a_seed_that_the_sampler_rejects_is_rejected_before_the_first_stage(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        run.main(["--seed", "-1", "--out", str(tmp_path / "out")])
    assert ended.value.code == 2 and not (tmp_path / "out").exists()
    assert "--seed is -1; it must be between 0 and 4294967195." in capsys.readouterr().err


def test_a_model_that_is_not_there_is_rejected_before_the_first_stage(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MODEL_PATH", f"{tmp_path}/none")
    with pytest.raises(SystemExit) as ended:
        run.main(["--model", "smollm2", "--out", str(tmp_path / "out")])
    assert ended.value.code == 2 and not (tmp_path / "out").exists()
    [sentence] = capsys.readouterr().err.splitlines()
    assert sentence.startswith(f"Error: MODEL_PATH={tmp_path}/none holds no config.json (the model folder")
