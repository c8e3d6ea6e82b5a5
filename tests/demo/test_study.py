"""The study's stages, specifications and command line (tests/evaluation/test_over_seeds.py has its comparison)."""

import os
import subprocess
from contextlib import nullcontext
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
import yaml

from rl.demo import experiment, stages, study
from rl.demo.experiment import SCRIPTS
from rl.demo.expert import expert_responses
from rl.demo.methods import METHODS, PAPER_METHODS
from rl.demo.stage_marks import write_mark
from rl.demo.task import TaskSettings, make_task
from rl.evaluation.report import seeds


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--methods", "grpo,ppo"], "--methods 'grpo,ppo': ['ppo'] is not a method; use some of grpo, dapo"),
        (["--seeds", "1,x"], "--seeds '1,x': give whole numbers"),
        (["--jobs", "0"], "--jobs is 0; it must be at least 1"),
    ],
)
def test_a_wrong_argument_is_one_sentence(arguments, sentence, capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        study.main(["--out", str(tmp_path / "out"), *arguments])
    assert stop.value.code == 2 and sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_seeds_are_compared_on_the_same_base_and_eta_0_is_of_its_family(tmp_path):
    specs = study.Study(tmp_path, ["dapo_exp", "dph_js"], [1, 2], steps=4, at_once=2)._specs()
    of_eta = {name: (entry.family, entry.eta) for name, entry in specs[2].methods.items()}
    assert of_eta == {
        "base": (None, None),
        "base_again": (None, None),
        "dapo_exp": ("DPH-JS", 0.0),
        "dph_js": ("DPH-JS", 0.5),
    }
    assert specs[1].methods["base"] == specs[2].methods["base"]
    assert specs[2].methods["dph_js"].splits["in_domain"].samples == tmp_path / "eval/dph_js_s2/in_domain.jsonl"


def test_a_finished_study_only_writes_its_report_again(tmp_path, monkeypatch):
    """Whatever the code of the report and the names of methods have become since."""
    options = {"methods": ["grpo", "dph_js"], "seeds": [1], "steps": 4, "at_once": 2}
    before = study.Study(tmp_path, **options)
    for stage in before.stages():
        assert not before.pipeline._is_done(stage)
        write_mark(before.pipeline._mark_path(stage), before.pipeline._identity(stage), seconds=60.0)
        for path in stage.outputs:
            path.mkdir(parents=True)
    monkeypatch.setitem(METHODS, "grpo", replace(METHODS["grpo"], label="Renamed"))
    monkeypatch.setattr(experiment, "scorer_server", lambda *_: nullcontext("http://127.0.0.1:9"))
    monkeypatch.setattr(stages.subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    monkeypatch.setattr(seeds, "write_seeds", lambda out, name, specs, baselines, facts: (specs, facts))
    specs, facts = study.Study(tmp_path, **options).run()
    assert specs[1].methods["grpo"].label == "Renamed" and facts["seconds_of_stages"]["train_dph_js_s1"] == 60.0


def test_a_baseline_trains_with_its_settings_on_what_it_needs(tmp_path):
    found = study.Study(tmp_path, ["kl_cov", "zero_success", "dph_js"], [1], steps=4, at_once=2)
    stages = {stage.name: stage for stage in found.stages()}
    assert stages["train_kl_cov_s1"].environment["KL_COV_RATIO"] == "0.02"
    needs = {name: [*stage.needs] for name, stage in stages.items() if name.startswith(("train", "unsolved", "split"))}
    assert needs == {
        "split": ["presample"],
        "unsolved": ["presample"],
        "train_kl_cov_s1": ["model"],
        "train_zero_success_s1": ["unsolved"],
        "train_dph_js_s1": ["store"],
    }
    # The script's default is what the stage writes.
    environment = os.environ | stages["train_zero_success_s1"].environment
    command = [*stages["train_zero_success_s1"].command, "--dry-run=config"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert yaml.safe_load(done.stdout)["data"]["train_files"] == str(stages["unsolved"].outputs[1])
    assert "--keep-zero" in stages["unsolved"].command and "--keep-zero" not in stages["split"].command
    without = study.Study(tmp_path, ["kl_cov"], [1], steps=4, at_once=2)
    assert "unsolved" not in {stage.name for stage in without.stages()}


def test_every_script_is_there_and_labels_differ():
    assert all((SCRIPTS / method.script).is_file() for method in METHODS.values())
    assert len({method.label for method in METHODS.values()}) == len(METHODS)


def test_a_method_on_another_store_has_its_stage_and_only_then(tmp_path):
    def stages_of(*methods):
        made = study.Study(tmp_path, list(methods), [1], steps=4, at_once=2).stages()
        return {stage.name: stage for stage in made}

    assert not [name for name in stages_of(*PAPER_METHODS) if name.startswith("store_")]
    found = stages_of("dph_f", "dph_f_solved", "rft_solved", "dph_f_solved_explore_all")
    assert [name for name in found if name.startswith("store")] == ["store", "store_solved_all"]
    store, default = found["store_solved_all"], found["store"]
    path = store.environment["SFT_PT"]
    assert (store.needs, [str(output) for output in store.outputs]) == (["store"], [str(tmp_path / "data/solved_all")])
    assert path == str(tmp_path / "data/solved_all/pef.pt") and default.environment["SFT_PT"] != path
    assert (store.environment["SFT_COVERAGE"], store.environment["SFT_RESPONSES_PER_PROMPT"]) == ("solved", "all")
    trained = {name: found[f"train_{name}_s1"] for name in ("dph_f", "dph_f_solved", "rft_solved")}
    assert {name: stage.environment["SFT_PT"] == path for name, stage in trained.items()} == {
        "dph_f": False,
        "dph_f_solved": True,
        "rft_solved": True,
    }
    assert trained["dph_f_solved"].needs == ["store_solved_all"] and trained["dph_f"].needs == ["store"]
    alone = trained["rft_solved"].environment
    assert (alone["POLICY_LOSS_COEFF"], alone["ROLLOUT_N"]) == ("0", "1")
    assert found["train_dph_f_solved_explore_all_s1"].environment["EXPLORED"] == "all"
    found = stages_of("chord_mu")
    store, trained = found["store_expert"], found["train_chord_mu_s1"]
    assert store.environment["SFT_RESPONSES"] == str(found["expert"].outputs[0]) and "expert" in store.needs
    assert trained.environment["FOREIGN_PT"] == store.environment["SFT_PT"] != trained.environment["SFT_PT"]


def test_the_experts_responses_are_right_and_of_one_style(tmp_path):
    make_task(tmp_path, TaskSettings(train=8, eval=4, sft=8))
    rows = expert_responses(tmp_path / "train.parquet")
    questions = pq.read_table(tmp_path / "train.parquet").to_pylist()
    assert [row["id"] for row in rows] == [question["id"] for question in questions]
    for row, question in zip(rows, questions, strict=True):
        truth = question["reward_model"]["ground_truth"]
        assert row["response"] == f"```sql\n/*IN*/ {truth['gold_sql']}\n```"
