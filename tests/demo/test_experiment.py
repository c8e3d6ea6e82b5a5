"""The experiment's stages: their device, their settings, and what they wait for."""

import os
from pathlib import Path

import pytest

from rl.common.errors import UserError
from rl.common.run_lock import sole_run
from rl.configuration.arguments import run_of
from rl.configuration.run import Run
from rl.demo import experiment, models, run, study
from rl.demo.stages import Stage


def test_one_demo_at_a_time_in_a_folder(tmp_path):
    demo = run.Demo(tmp_path, ["grpo"], 1, 1)
    with sole_run(tmp_path, ""), pytest.raises(UserError, match="under way in .*name another folder .--out."):
        demo.run_stages([])
    assert not (tmp_path / "logs" / "scorer.log").exists()


def hashes_of(demo) -> dict[str, str]:
    """What decides whether each stage is done."""
    for stage in demo.stages():
        demo.pipeline._is_done(stage)
    return demo.pipeline.hashes


def by_name(demo) -> dict[str, Stage]:
    return {stage.name: stage for stage in demo.stages()}


def model_folder(folder: Path) -> Path:
    """The files of a pretrained model by which it is recognised, with other contents."""
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (folder / name).write_text("one")
    return folder


def composed(stage, monkeypatch) -> Run:
    """The run that a stage of rl.launch starts."""
    for name, value in stage.environment.items():
        monkeypatch.setenv(name, value)
    [method, *words] = stage.command[stage.command.index("rl.launch") + 1 :]
    return run_of(method, words)


@pytest.mark.parametrize("device, name", [("cpu", "out"), ("cuda_hf", "it's müller's=(1), #[2]")])
def test_every_program_runs_on_the_device_and_with_the_experiments_settings(device, name, monkeypatch, tmp_path):
    tmp_path /= name
    stages = by_name(run.Demo(tmp_path, ["dph_js"], steps=2, seed=3, device=device))
    for name in ("presample", "store", "train_dph_js"):
        found = composed(stages[name], monkeypatch)
        assert found.device == device and found.values["trainer.device"] == device.partition("_")[0]
        assert ("VERL_PLATFORM" in found.environment) == (device == "cpu")
        assert found.values["actor_rollout_ref.model.path"] == str(tmp_path / "model")
        assert found.values["data.seed"] == 3
    assert f"device={device}" in stages["evaluate_base"].command
    expected = {
        "algorithm.rollout_correction.bypass_mode": device == "cpu",
        "data.sft_pt": str(tmp_path / "data" / "pef.pt"),
        "trainer.total_training_steps": 2,
        "trainer.default_local_dir": str(tmp_path / "runs" / "dph_js"),
    }
    assert {key: found.values[key] for key in expected} == expected


def test_no_program_sees_the_users_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("ROLLOUT_N", "3")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy")
    experiment.ignore_variables()
    assert "ROLLOUT_N" not in os.environ and os.environ["HTTP_PROXY"] == "http://proxy"


def test_the_files_settings_decide_whether_a_stage_is_done(monkeypatch, tmp_path):
    def hash_of():
        return hashes_of(run.Demo(tmp_path, ["grpo"], steps=2, seed=1))["train_grpo"]

    before = hash_of()
    changed = experiment.settings("grpo").copy()
    changed.actor_rollout_ref.actor.optim.lr = 1.0
    assert hash_of() == before
    monkeypatch.setattr(experiment, "settings", lambda method, experiment: changed)
    assert hash_of() != before


def test_a_study_goes_on_in_another_place_with_other_jobs_but_not_with_other_rules(monkeypatch, tmp_path):
    def of_study(folder: str, at_once: int) -> dict[str, str]:
        of = {"methods": ["grpo", "dph_js"], "seeds": [1], "steps": 2}
        return hashes_of(study.Study(out=tmp_path / folder, at_once=at_once, **of))

    before = of_study("a", 2)
    assert of_study("b", 1) == of_study("a", 3) == before
    other = tmp_path / "scorer.yaml"
    other.write_text(f"{experiment.scorer_config().read_text()}    prediction_seconds: 7\n")
    monkeypatch.setattr(experiment, "scorer_config", lambda experiment: other)
    assert {name for name, found in of_study("a", 2).items() if found == before[name]} == {"task", "model"}


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_another_model_in_its_folder_starts_the_demo_from_its_base_again(file, tmp_path):
    own = model_folder(tmp_path / "own")

    def of_demo():
        return hashes_of(run.Demo(tmp_path / "out", ["grpo"], 2, 1, model=models.SMOLLM2, model_path=str(own)))

    before = of_demo()
    assert of_demo() == before
    (own / file).write_text("another")
    assert {name for name, found in of_demo().items() if found == before[name]} == {"task"}


def test_two_programs_run_at_once_on_a_cpu_and_one_on_a_gpu(tmp_path):
    found = {}
    for device in ("cpu", "cuda_hf"):
        demo = run.Demo(tmp_path, ["grpo", "dph_js"], steps=2, seed=1, device=device)
        stages = by_name(demo)
        threads = {name: stage.environment.get("OMP_NUM_THREADS") for name, stage in stages.items()}
        found[device] = demo.at_once, stages["presample"].command[-1], threads["train_grpo"]
    ranks = "trainer.n_gpus_per_node=1"
    assert found == {"cpu": (2, ranks, "1"), "cuda_hf": (1, ranks, "2")}
    # GRPO trains on all prompts: it waits for neither the samples nor the store.
    assert {name: stage.needs for name, stage in stages.items()} == {
        "task": (),
        "model": ["task"],
        "presample": ["model"],
        "split": ["presample"],
        "store": ["split"],
        "train_grpo": ["model"],
        "train_dph_js": ["store"],
        "evaluate_grpo": ["train_grpo"],
        "evaluate_dph_js": ["train_dph_js"],
        "evaluate_base": ["model"],
    }


@pytest.mark.parametrize(("bf16", "device"), [(True, "cpu_bf16"), (False, "cpu")])
def test_the_pretrained_model_runs_maths_road_alone_on_both_cores(bf16, device, monkeypatch, tmp_path):
    monkeypatch.setattr(models, "has_bf16", lambda: bf16)
    own = model_folder(tmp_path / "own")
    demo = run.Demo(tmp_path, ["grpo", "dph_js"], steps=2, seed=1, model=models.SMOLLM2, model_path=str(own))
    stages = by_name(demo)
    assert demo.at_once == 1 and stages["train_grpo"].environment["OMP_NUM_THREADS"] == "2"
    assert stages["model"].command[-1] == f"--model={own}"
    assert "--experiment=smollm2_math" in stages["split"].command
    # GRPO trains on both parts of the split, between which the store moves prompts.
    assert {name: stages[name].needs for name in ("train_grpo", "train_dph_js")} == {
        "train_grpo": ["store"],
        "train_dph_js": ["store"],
    }
    found = composed(stages["train_grpo"], monkeypatch)
    computed = "bf16" if bf16 else "fp32"
    expected = {
        "data.train_files": [str(tmp_path / "data" / f"train_{part}.parquet") for part in ("wrong", "correct")],
        "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype": computed,
        "actor_rollout_ref.rollout.dtype": "bfloat16" if bf16 else "float32",
    }
    assert found.device == device and {key: found.values[key] for key in expected} == expected
    assert str(experiment.scorer_config(demo.model.experiment)).endswith("rl/scorer/math.yaml")
    spec = demo.spec(demo.own_draw, title="t", summary="s")
    assert (spec.styles, spec.styles_by) == (["Compute", "First", "Let"], "opening")
