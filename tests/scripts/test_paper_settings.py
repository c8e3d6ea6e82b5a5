"""The resolved configuration of every script under every experiment is the paper's, and verl and verl.dph accept it."""

import warnings

import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from rl.checks.run import settings
from rl.configuration.variables import flat
from tests.programs import REPOSITORY
from tests.scripts.conftest import hydras_compose
from verl.dph.checks.run import MAIN, Subject, rules_of_training
from verl.dph.config import attention
from verl.dph.training import config as training_config

# Script folder, experiment (empty: the folder's own), then the paper's settings (docs/howto/reproduce.md).
EXPERIMENTS = {
    "llama_sql": ("llama", "", dict(epochs=4, lr=1e-6, val_t=1.0, response=4096, prompt=16000)),
    "omnisql_sql": ("llama", "omnisql_sql", dict(epochs=4, lr=1e-6, val_t=1.0, response=4096, prompt=16000)),
    "llama_math": ("qwen", "llama_math", dict(epochs=8, lr=2e-7, val_t=0.6, response=2048, prompt=2048)),
    "qwen_math": ("qwen", "", dict(epochs=8, lr=2e-7, val_t=0.6, response=2048, prompt=2048)),
}
MODELS = {
    "llama_sql": "meta-llama/Llama-3.1-8B-Instruct",
    "omnisql_sql": "seeklhy/OmniSQL-32B",
    "llama_math": "meta-llama/Llama-3.1-8B-Instruct",
    "qwen_math": "Qwen/Qwen2.5-Math-7B",
}
# Responses are sampled from the whole vocabulary.
WHOLE = {"actor_rollout_ref.rollout.top_p": 1.0, "actor_rollout_ref.rollout.top_k": -1}
# Mode, eta, whether D_pef is rehearsed, whether a reference model runs.
RUNS = {
    "grpo": ("none", None, False, False),
    "dapo": ("none", None, False, False),
    "forward_kl": ("forward", 0.01, True, False),
    "js_kl": ("js_low_var", 0.2, True, False),
    "js_definition": ("js", 0.2, True, True),
    "alpha": ("alpha", 0.01, True, False),
    "reverse_kl": ("reverse_kl", 0.01, False, True),
}
# What a baseline's script sets, beside GRPO's settings.
LOSS = "actor_rollout_ref.actor.policy_loss."
BASELINES = {
    "kl_cov": {f"{LOSS}loss_mode": "kl_cov", f"{LOSS}kl_cov_ratio": 0.002, f"{LOSS}ppo_kl_coef": 1.0},
    "clip_cov": {
        f"{LOSS}loss_mode": "clip_cov",
        f"{LOSS}clip_cov_ratio": 0.0002,
        f"{LOSS}clip_cov_lb": 1.0,
        f"{LOSS}clip_cov_ub": 5.0,
        "actor_rollout_ref.actor.clip_ratio_low": 1.0,
        "actor_rollout_ref.actor.clip_ratio_high": 1.0,
    },
    "entropy_bonus": {"actor_rollout_ref.actor.entropy_coeff": 0.001},
    "grpo_passk": {"algorithm.adv_estimator": "grpo_passk"} | WHOLE,
    "pkpo": {"algorithm.adv_estimator": "pkpo", "algorithm.pkpo_k": 8} | WHOLE,
    "nsr": {"algorithm.adv_estimator": "w_reinforce", "algorithm.w_reinforce_lambda": 0.0} | WHOLE,
    "w_reinforce": {"algorithm.adv_estimator": "w_reinforce", "algorithm.w_reinforce_lambda": 0.1} | WHOLE,
    "zero_success": {"data.train_files": "unsolved/train_wrong.parquet"},
    "chord_mu": {
        "data.sft_files": ["train.parquet"],
        "data.sft_pt": "foreign.pt",
        "actor_rollout_ref.actor.sft_loss_mode": "forward",
        "actor_rollout_ref.actor.sft_loss_normalization": "per_set",
        "actor_rollout_ref.actor.sft_loss_coeff": 1.0,
        "actor_rollout_ref.actor.sft_loss_control.type": "cosine",
        "actor_rollout_ref.actor.sft_loss_control.warmup_steps": 0,
        "actor_rollout_ref.actor.sft_loss_control.final_ratio": 0.05,
    },
}
SOLVED = {
    "actor_rollout_ref.actor.sft_loss_coeff": 0.2,
    "actor_rollout_ref.actor.sft_loss_normalization": "per_set",
}
# What an extension sets, and the method that it extends.
EXTENSIONS = {
    "maxrl": ("grpo", {"algorithm.adv_estimator": "maxrl"}),
    "recipe": ("forward_kl", {"algorithm.adv_estimator": "maxrl"} | SOLVED),
    "grpo_cap": ("grpo", {"algorithm.success_cap": 0.6}),
    "forward_kl_cap": ("forward_kl", {"algorithm.success_cap": 0.6} | SOLVED),
    "js_kl_cap": ("js_kl", {"algorithm.success_cap": 0.75}),
}
# Settings without a value that nothing reads: no run has a reward model.
NOT_ASKED = {"reward.reward_model.rollout.name"}


def dry_run(launcher, experiment, script, *arguments, **environment):
    folder, name, _ = EXPERIMENTS[experiment]
    chosen = [f"experiment={name}"] if name else []
    return launcher.dry_run(f"{folder}/{script}", *arguments, *chosen, **environment)


@pytest.mark.parametrize("method", RUNS)
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_training(launcher, files, monkeypatch, experiment, method):
    paper = EXPERIMENTS[experiment][2]
    started = dry_run(launcher, experiment, method, "name", **files | {"MODEL_PATH": ""})
    config = started.config()
    actor, rollout, data = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout, config.data
    assert started.module == "verl.dph.main"
    assert config.actor_rollout_ref.model.path == MODELS[experiment]
    assert (data.train_batch_size, rollout.n, config.trainer.total_epochs) == (128, 16, paper["epochs"])
    assert (actor.ppo_mini_batch_size, actor.ppo_epochs, actor.optim.lr) == (64, 1, paper["lr"])
    assert (rollout.temperature, rollout.top_p) == (1.0, 0.95)
    assert (rollout.val_kwargs.temperature, rollout.val_kwargs.top_p) == (paper["val_t"], 0.95)
    assert rollout.val_kwargs.do_sample
    assert (data.max_prompt_length, data.max_response_length) == (paper["prompt"], paper["response"])
    assert actor.loss_agg_mode == "token-mean" and config.algorithm.adv_estimator == "grpo"
    assert not config.algorithm.use_kl_in_reward
    assert actor.clip_ratio_low == 0.2
    assert actor.clip_ratio_high == (0.2 if method == "grpo" or experiment == "llama_math" else 0.28)

    mode, eta, rehearses, reference = RUNS[method]
    assert actor.sft_loss_mode == mode and actor.use_kl_loss == reference
    assert eta is None or actor.sft_loss_coeff == eta
    assert training_config.rehearses(config) == rehearses
    if rehearses:
        assert (data.sft_batch_size, actor.sft_loss_normalization) == (256, "joint")
        assert (data.train_files, data.sft_pt) == (f"{files['DATA_DIR']}/train_wrong.parquet", files["SFT_PT"])
        assert data.sft_files == f"{files['DATA_DIR']}/train_correct.parquet"
    else:
        both = [f"{files['DATA_DIR']}/train_{part}.parquet" for part in ("wrong", "correct")]
        assert list(data.train_files) == (both if "math" in experiment else [files["TRAIN_FILE"]])
        assert data.sft_files is None and data.sft_pt is None
    is_dapo = method == "dapo"
    assert config.algorithm.filter_groups.enable == is_dapo
    assert config.reward.reward_manager.name == ("dapo" if is_dapo else "naive")
    assert (config.trainer.experiment_name, config.trainer.device, rollout.name) == ("name", "cuda", "vllm")

    accept(config, files, monkeypatch)
    assert actor.ppo_max_token_len_per_gpu == max(16384, paper["prompt"] + paper["response"])


@pytest.mark.parametrize(
    ("method", "base", "own"),
    [*((name, "grpo", own) for name, own in BASELINES.items()), *((name, *own) for name, own in EXTENSIONS.items())],
)
def test_a_method_is_another_one_with_its_settings(launcher, files, monkeypatch, method, base, own):
    started = {script: dry_run(launcher, "llama_sql", script, "name", **files) for script in (base, method)}
    settings = {script: dict(flat(OmegaConf.to_container(run.config()))) for script, run in started.items()}
    changed = {key: value for key, value in settings[method].items() if value != settings[base][key]}
    expected = {key: in_folder(value, files["DATA_DIR"]) for key, value in own.items()}
    defaults = {key for key, value in expected.items() if settings[base][key] == value}
    assert {key: settings[method][key] for key in expected} == expected
    assert changed.keys() == expected.keys() - defaults and changed
    accept(started[method].config(), files, monkeypatch)


def in_folder(value, folder):
    """A file of BASELINES in the folder; other values as they are."""
    if isinstance(value, list):
        return [in_folder(name, folder) for name in value]
    return f"{folder}/{value}" if str(value).endswith((".parquet", ".pt")) else value


def accept(config, files, monkeypatch):
    """verl.dph's checks and verl's own, on a GPU machine with the files in their places."""
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    monkeypatch.setattr(attention, "_why_not_flash_attn", lambda config: None)  # flash-attn is installed
    assert OmegaConf.missing_keys(config) <= NOT_ASKED
    config.actor_rollout_ref.model.path = files["MODEL_PATH"]
    subject = Subject(config, MAIN)
    assert {look(subject).status for look in (settings, rules_of_training)} == {"ok"}
    if not config.actor_rollout_ref.actor.generate_sft:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # verl warns that there is no critic
            critic = need_critic(config)
        validate_config(config=config, use_reference_policy=need_reference_policy(config), use_critic=critic)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_dapo_shapes_overlong_answers_as_verl_reads_it(launcher, experiment):
    config = dry_run(launcher, experiment, "dapo", "name").config()
    response = EXPERIMENTS[experiment][2]["response"]
    shaping = config.reward.reward_kwargs
    assert (shaping.max_resp_len, shaping.overlong_buffer_cfg.len) == (response, response // 4)
    assert shaping.overlong_buffer_cfg.enable and shaping.overlong_buffer_cfg.penalty_factor == 1.0
    assert config.algorithm.filter_groups.metric == ("acc" if "math" in experiment else "reward")


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_preparation(launcher, files, monkeypatch, experiment):
    """Eight samples per prompt at training temperature, then the store from the same files that training reads."""
    started = dry_run(launcher, experiment, "offline_sampling", "sampling")
    assert started.module == "verl.dph.presample"
    sampling = started.config()
    assert OmegaConf.missing_keys(sampling) <= NOT_ASKED
    rollout = sampling.actor_rollout_ref.rollout
    assert (sampling.presample.n, rollout.temperature, rollout.top_p) == (8, 1.0, 0.95)
    assert sampling.presample.output.endswith("/generate_data/0.jsonl")
    assert sampling.actor_rollout_ref.model.path == MODELS[experiment]

    store = dry_run(launcher, experiment, "get_correct_data_tensor").config()
    assert store.actor_rollout_ref.actor.generate_sft
    training = dry_run(launcher, experiment, "js_kl", "name").config()
    for key in ("sft_files", "sft_pt", "max_prompt_length", "max_response_length"):
        assert store.data[key] == training.data[key]
    assert store.data.sft_wrong_files == training.data.train_files
    folder = sampling.presample.output.removesuffix("/generate_data/0.jsonl")
    assert store.data.sft_files == f"{folder}/train_correct.parquet"
    accept(dry_run(launcher, experiment, "get_correct_data_tensor", **files).config(), files, monkeypatch)


def test_what_is_stored_and_explored(launcher, files, tmp_path, monkeypatch):
    """The settings of docs/howto/train.md are accepted together."""
    samples, given = tmp_path / "generate_data" / "0.jsonl", tmp_path / "given.jsonl"
    samples.parent.mkdir(), samples.touch(), given.touch()

    def config(script, *words):
        found = dry_run(launcher, "llama_sql", script, "name", *words, **files).config()
        accept(found, files, monkeypatch)
        return found

    solved = ["data.sft_coverage=solved", "data.sft_responses_per_prompt=all"]
    assert config("get_correct_data_tensor", *solved).data.sft_samples == str(samples)
    config("get_correct_data_tensor", f"data.sft_responses={given}")
    actor = "actor_rollout_ref.actor."
    alone = ["launch.explored=all", f"{actor}policy_loss_coeff=0", "actor_rollout_ref.rollout.n=1"]
    assert list(config("forward_kl", *alone).data.train_files) == [files["TRAIN_FILE"]]
    assert config("chord_mu", "launch.explored=exp").data.train_files == f"{tmp_path}/train_wrong.parquet"


@pytest.mark.parametrize("script", ["llama/dapo", "qwen/js_definition"])
def test_hydra_composes_the_same(launcher, script):
    """What the other tests compose faster (conftest.py)."""
    started = launcher.dry_run(script, "name")
    assert started.config() == started.config(hydras_compose)


def test_every_script_of_one_folder_is_in_the_other():
    for folder in ("llama", "qwen"):
        names = {path.stem for path in (REPOSITORY / "scripts" / folder).glob("*.sh")}
        assert names == {*RUNS, *BASELINES, *EXTENSIONS, "offline_sampling", "get_correct_data_tensor"}
