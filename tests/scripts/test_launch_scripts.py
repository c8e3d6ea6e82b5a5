"""The launch scripts print the paper's settings: each is run with `echo` for Python, and Hydra composes what it
says."""

import os
import subprocess
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from verl.dph.cli import CONFIG_DIR

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = REPOSITORY / "scripts" / "llama"
TRAINING = ["grpo", "dapo", "forward_kl", "js_kl"]


def run(script, *arguments, **environment):
    clean = {name: os.environ[name] for name in ("PATH", "HOME")}
    return subprocess.run(
        ["bash", str(SCRIPTS / f"{script}.sh"), *arguments],
        env=clean | {"PYTHON": "echo"} | environment,
        capture_output=True,
        text=True,
        timeout=30,
    )


def resolved(tmp_path, script, *arguments, config="dph_trainer", module="verl.dph.main", **environment):
    """The configuration that the script's program would see."""
    finished = run(script, *arguments, OUTPUT_DIR=str(tmp_path / "out"), **environment)
    assert finished.returncode == 0, finished.stderr
    flag, name, *overrides = finished.stdout.split()
    assert (flag, name) == ("-m", module)
    with initialize_config_dir(str(CONFIG_DIR), version_base=None):
        return compose(config, overrides)


@pytest.mark.parametrize("script", TRAINING)
def test_training_has_the_papers_settings(tmp_path, script):
    """METHOD.md, "Settings of the paper", Llama-SQL."""
    config = resolved(tmp_path, script, "name")
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    assert (config.data.train_batch_size, actor.ppo_mini_batch_size, rollout.n) == (128, 64, 16)
    assert (actor.optim.lr, config.trainer.total_epochs, actor.ppo_epochs) == (1e-6, 4, 1)
    assert (rollout.temperature, rollout.top_p) == (1.0, 0.95)
    assert (rollout.val_kwargs.temperature, rollout.val_kwargs.top_p) == (1.0, 0.95)
    assert (config.data.max_prompt_length, config.data.max_response_length) == (16000, 4096)
    assert actor.loss_agg_mode == "token-mean" and not actor.use_kl_loss and not config.algorithm.use_kl_in_reward
    assert config.algorithm.adv_estimator == "grpo"
    assert actor.clip_ratio_high == (0.2 if script == "grpo" else 0.28)
    assert config.trainer.experiment_name == "name" and config.trainer.device == "cuda"


@pytest.mark.parametrize(
    ("script", "mode", "default"), [("forward_kl", "forward", 0.01), ("js_kl", "js_low_var", 0.2)]
)
def test_rehearsal_scripts_take_the_coefficient_and_overrides(tmp_path, script, mode, default):
    for arguments, eta in ((["name"], default), (["name", "0.05"], 0.05)):
        config = resolved(tmp_path, script, *arguments)
        assert config.actor_rollout_ref.actor.sft_loss_mode == mode
        assert config.actor_rollout_ref.actor.sft_loss_coeff == eta
        assert config.actor_rollout_ref.actor.sft_loss_normalization == "joint"
        assert config.data.sft_batch_size == 256
        assert config.data.train_files.endswith("llama3.1-8b/train_wrong.parquet")
        assert config.data.sft_pt.endswith("llama3.1-8b/8b_llama3.1_all_right.pt")
    config = resolved(tmp_path, script, "name", "0.05", "trainer.nnodes=4", MODEL_PATH="/models/m")
    assert config.trainer.nnodes == 4 and config.actor_rollout_ref.model.path == "/models/m"


def test_baselines_train_on_all_prompts_without_a_mode(tmp_path):
    for script in ("grpo", "dapo"):
        config = resolved(tmp_path, script, "name", "trainer.nnodes=2")
        assert config.actor_rollout_ref.actor.sft_loss_mode == "none" and config.trainer.nnodes == 2
        assert config.data.train_files.endswith("data/sql/bird_train.parquet")
    assert config.algorithm.filter_groups.enable and config.reward.reward_manager.name == "dapo"
    assert config.reward.reward_kwargs.overlong_buffer_cfg.len == 1024


def test_presampling_takes_eight_samples_into_the_papers_file(tmp_path):
    config = resolved(tmp_path, "offline_sampling", "sampling", config="presample", module="verl.dph.presample")
    assert config.presample.n == 8
    assert config.presample.output.endswith("data/sql/llama3.1-8b/generate_data/0.jsonl")
    assert (config.actor_rollout_ref.rollout.temperature, config.actor_rollout_ref.rollout.top_p) == (1.0, 0.95)


def test_the_store_is_written_by_the_trainer(tmp_path):
    config = resolved(tmp_path, "get_correct_data_tensor")
    assert config.actor_rollout_ref.actor.generate_sft
    assert config.data.sft_wrong_files.endswith("llama3.1-8b/train_wrong.parquet")


@pytest.mark.parametrize("script", [*TRAINING, "offline_sampling"])
def test_a_missing_name_is_said(script):
    finished = run(script)
    assert finished.returncode == 2 and "usage:" in finished.stderr and not finished.stdout


@pytest.mark.parametrize("script", [*TRAINING, "offline_sampling", "get_correct_data_tensor"])
def test_help_names_the_arguments(script):
    finished = run(script, "--help")
    assert finished.returncode == 0 and finished.stdout.startswith("usage:") and "llama_sql.sh" in finished.stdout
