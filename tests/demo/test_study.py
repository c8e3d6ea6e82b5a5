"""The study's stages, specifications and command line (tests/evaluation/test_over_seeds.py has its comparison)."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from rl.demo import experiment, stages, study
from rl.demo.methods import METHODS
from rl.demo.models import SMOLLM2
from rl.evaluation import over_seeds


def study_of(folder: Path, *methods: str, seeds=(1,), steps=4, **options) -> study.Study:
    return study.Study(out=folder, methods=methods, seeds=seeds, steps=steps, at_once=2, **options)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--methods", "grpo,zzz"], "--methods 'grpo,zzz': zzz is not a method; use some of grpo, dapo"),
        (["--model", "smollm2"], "recipe_anchor needs files that only the SQL task has: leave it out."),
        (["--steps", "0"], "argument --steps: '0' is not a whole number from 1 on"),
    ],
)
def test_a_wrong_argument_is_one_sentence(arguments, sentence, capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        study.main(["--out", str(tmp_path / "out"), *arguments])
    assert stop.value.code == 2 and sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_pretrained_model_has_a_thread_for_each_of_two_runs(tmp_path):
    found = study_of(tmp_path, "grpo", seeds=[1, 2], model=SMOLLM2)
    threads = {stage.name: stage.environment.get("OMP_NUM_THREADS") for stage in found.stages()}
    assert (found.at_once, found.replicas, threads["model"], threads["train_grpo_s2"]) == (2, 2, "2", "1")
    assert found.in_domain == SMOLLM2.in_domain
    assert [*study.FOLDERS.values()] == ["outputs/study", "outputs/study_smollm2"]


def test_a_finished_study_only_writes_its_report_again(tmp_path, monkeypatch):
    """Whatever the code of the report and the names of methods have become since."""
    before = study_of(tmp_path, "grpo", "dph_js")
    for stage in before.stages():
        assert not before.pipeline._is_done(stage)
        before.pipeline._write_mark(stage, seconds=60.0)
        for path in stage.outputs:
            path.mkdir(parents=True)
    monkeypatch.setitem(METHODS, "grpo", replace(METHODS["grpo"], label="Renamed"))
    monkeypatch.setattr(experiment, "temporary_scorer", lambda *_: nullcontext("http://127.0.0.1:9"))
    monkeypatch.setattr(stages, "start", lambda *_: pytest.fail("a program was started"))
    monkeypatch.setattr(over_seeds, "write_seeds", lambda out, name, specs, baselines, facts, primary: (specs, facts))
    specs, facts = study_of(tmp_path, "grpo", "dph_js").run()
    assert specs[1].methods["grpo"].label == "Renamed" and facts["seconds_of_stages"]["train_dph_js_s1"] == 60.0
    assert facts["definitions"] == {"grpo": "grpo", "dph_js": "js_kl actor_rollout_ref.actor.sft_loss_coeff=0.5"}


def stages_of(folder, *methods: str, **options) -> dict[str, stages.Stage]:
    return {stage.name: stage for stage in study_of(folder, *methods, **options).stages()}


def spec_of(whole: study.Study, seed: int):
    return whole.spec(whole.draw(seed), title="t", summary="s")


def test_a_method_on_another_store_has_its_stage_and_only_then(tmp_path):
    found = stages_of(tmp_path, "dph_f", "kl_cov", "dph_f_solved", "rft_solved")
    assert [name for name in found if name.startswith("store")] == ["store_s1", "store_solved_all_s1"]
    assert "store_solved_all_s1" not in stages_of(tmp_path, "grpo", "rkl", "dph_js")
    assert "actor_rollout_ref.actor.policy_loss.kl_cov_ratio=0.02" in found["train_kl_cov_s1"].command
    solved_all, stored = "data.sft_pt=${launch.data}/solved_all/pef.pt", found["store_solved_all_s1"]
    assert {solved_all, "data.sft_coverage=solved", "data.sft_responses_per_prompt=all"} <= set(stored.command)
    assert (stored.needs, stored.outputs) == (["store_s1"], [tmp_path / "data" / "seed_1" / "solved_all"])
    trained = {name: found[f"train_{name}_s1"] for name in ("dph_f", "kl_cov", "dph_f_solved", "rft_solved")}
    assert {name: (of.needs, [word for word in of.command if "sft_pt" in word]) for name, of in trained.items()} == {
        "dph_f": (["store_s1"], []),
        "kl_cov": (["model"], []),
        "dph_f_solved": (["store_solved_all_s1"], [solved_all]),
        "rft_solved": (["store_solved_all_s1"], [solved_all]),
    }


def test_an_anchor_is_stored_from_samples_without_verdicts_of_prompts_of_its_own(tmp_path):
    found = stages_of(tmp_path, "recipe_anchor")
    path, prompts = "data.sft_pt=${launch.data}/anchor/pef.pt", "['${launch.folder}/task/anchor.parquet']"
    assert f"data.train_files={prompts}" in found["presample_anchor"].command
    stored = found["store_anchor_s1"]
    assert {path, "data.sft_coverage=all", f"data.sft_files={prompts}"} <= {*stored.command}
    assert "data.sft_samples=${launch.folder}/data/generate_anchor/0.jsonl" in stored.command
    assert found["presample_anchor"].outputs == [tmp_path / "data" / "generate_anchor"]
    assert stored.needs == ["presample_anchor"]
    beside = found["train_recipe_anchor_s1"]
    assert beside.needs == ["store_solved_all_s1", "store_anchor_s1"]
    assert path.replace("sft_pt", "sft_anchor_pt") in beside.command
    assert spec_of(study_of(tmp_path, "recipe_anchor"), 1).groups == ["ambiguous", "family", "schema"]


def test_a_method_that_trains_longer_is_evaluated_twice_on_the_way(tmp_path):
    whole = study_of(tmp_path, "grpo", "dapo", seeds=[2], long_steps=[6, 8])
    found = {stage.name: stage for stage in whole.stages()}
    steps = {name: [w for w in of.command if "steps=" in w] for name, of in found.items() if name.startswith("train")}
    assert steps == {
        "train_grpo_s2": ["trainer.total_training_steps=8"],
        "train_dapo_s2": ["trainer.total_training_steps=4"],
    }
    # All three checkpoints are there at the end.
    assert {"trainer.save_freq=2", "trainer.max_actor_ckpt_to_keep=null"} <= {*found["train_grpo_s2"].command}
    models = {
        name: next(w for w in of.command if "evaluate.models" in w) for name, of in found.items() if "eval" in name
    }
    rows = [("grpo_s2", 4), ("grpo_6_s2", 6), ("grpo_8_s2", 8), ("dapo_s2", 4)]
    for name, run, step in ((name, f"{name.partition('_')[0]}_s2", step) for name, step in rows):
        assert f"{name}:'{tmp_path}/runs/{run}/global_step_{step}/" in models[f"evaluate_{name}"]
        assert found[f"evaluate_{name}"].needs == [f"train_{run}"]
    entries = spec_of(whole, 2).methods
    assert entries["grpo_8"].training_log == entries["grpo"].training_log
    assert [entries[name].last_step for name in ("grpo", "grpo_6", "grpo_8")] == [4, 6, 8]


def test_each_seed_draws_its_own_d_pef_and_evaluates_with_its_own_random_numbers_the_base_too(tmp_path):
    """With the same ones in all seeds their chance would be in every seed's difference from the base."""
    whole = study_of(tmp_path, "dph_js", seeds=[1, 2])
    found = {stage.name: stage for stage in whole.stages()}
    for seed in (1, 2):
        words = {f"launch.data={tmp_path}/data/seed_{seed}", f"launch.seed={seed}"}
        words |= {f"launch.samples={found['presample'].outputs[0] / '0.jsonl'}"}
        for name in ("store", "train_dph_js"):
            assert words <= {*found[f"{name}_s{seed}"].command}
        for name in ("base", "dph_js"):
            stage = found[f"evaluate_{name}_s{seed}"]
            assert f"actor_rollout_ref.rollout.seed={100 + seed}" in stage.command
            assert f"evaluate.output={tmp_path}/eval/{name}_s{seed}" in stage.command
        assert f"evaluate.models={{base:'{tmp_path}/model'}}" in found[f"evaluate_base_s{seed}"].command
        entries = spec_of(whole, seed).methods
        folder = f"eval/base_s{seed}"
        for name, of in (("base", "base"), ("base_again", "base"), ("dph_js", f"dph_js_s{seed}")):
            files = entries[name].splits["in_domain"]
            assert (Path(files.samples).name, Path(files.greedy).name) == ("in_domain.jsonl", "in_domain.greedy.jsonl")
            assert f"{folder if 'base' in name else f'eval/dph_js_s{seed}'}/" in str(files.samples)
            assert f"/{of}/" in str(files.greedy)
