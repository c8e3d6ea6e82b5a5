"""Rules between settings: what contradicts each other is named in one sentence, before Ray starts."""

import json
import shutil

import pytest
from omegaconf import OmegaConf

from rl.common.errors import UserError
from rl.configuration.compose import compose
from tests.checks.conftest import of_mode
from tests.training.conftest import ACTOR, ETA, MODEL
from verl.dph.checks import model, rules
from verl.dph.config import attention

PACKED = {f"{MODEL}use_remove_padding": True}
FLASH = {f"{MODEL}override_config.attn_implementation": attention.FLASH}
ULYSSES = {f"{ACTOR}ulysses_sequence_parallel_size": 2, "trainer.n_gpus_per_node": 2} | PACKED | FLASH
LORA = {f"{MODEL}lora_rank": 8, f"{MODEL}lora.merge": True}

CRITIC = {"critic.enable": True, "critic.model.path": "${actor_rollout_ref.model.path}"}
GAE = CRITIC | {"algorithm.adv_estimator": "gae"}
FILTERED = {"algorithm.filter_groups.enable": True}
POLICY_LOSS = f"{ACTOR}policy_loss."
PKPO, W_REINFORCE = {"algorithm.adv_estimator": "pkpo"}, {"algorithm.adv_estimator": "w_reinforce"}

REFERENCE = "actor_rollout_ref.ref.log_prob_"
FSDP, TOKENS = f"{ACTOR}fsdp_config.", f"{ACTOR}ppo_max_token_len_per_gpu"


SHORT = {"data.max_prompt_length": 64, "data.max_response_length": 32}
CORRECTION = "algorithm.rollout_correction."
CORRECTS = {f"{CORRECTION}rollout_is": "token"}
SUM_NORM = {f"{ACTOR}loss_agg_mode": "seq-mean-token-sum-norm"}
UNBOUNDED = {f"{ACTOR}sft_log_ratio_max": None}
TAIL = {f"{ACTOR}sft_baseline": "tail"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"trainer.device": "cuda"}, "trainer.device=cuda does not go with VERL_PLATFORM='cpu'"),
        ({"trainer.v1.trainer_mode": "colocate_async"}, "trainer_mode=colocate_async would rehearse nothing: use sync"),
        ({f"{MODEL}path": "/nowhere/model"}, "/nowhere/model holds no config.json"),
        ({"algorithm.adv_estimator": "maxrll"}, "algorithm.adv_estimator=maxrll is unknown: use one of gae, "),
        ({f"{POLICY_LOSS}loss_mode": "klcov"}, "policy_loss.loss_mode=klcov is unknown: use one of vanilla, "),
        ({"algorithm.adv_estimator": "gae"}, "critic.model.path=~/models/deepseek-llm-7b-chat holds no config.json"),
        (ULYSSES | {f"{MODEL}override_config.attn_implementation": "sdpa"}, "attn_implementation=sdpa every rank"),
        (ULYSSES | {TOKENS: 511}, "ppo_max_token_len_per_gpu=511 (x 2 ranks of Ulysses) is less than the longest row"),
        (
            of_mode("js", reference=True) | {f"{REFERENCE}max_token_len_per_gpu": 1023},
            "ref.log_prob_max_token_len_per_gpu=1023 (x 1 ranks of Ulysses) is less",
        ),
        ({"actor_rollout_ref.rollout.max_model_len": 1023}, "rollout.max_model_len=1023 is less than the longest"),
        ({"data.max_response_length": 513}, "max_position_embeddings=1024 of /"),
        ({f"+{MODEL}override_config.rope_theta.base": 1}, "cannot be used: "),
        ({f"{MODEL}lora.rank": 8}, "lora.rank=8 makes no adapter with FSDP, which reads lora_rank"),
        ({f"{ACTOR}checkpoint.async_save": True}, "with it verl does not note which checkpoint is the newest"),
        (of_mode("reverse_kl"), "sft_loss_mode=reverse_kl compares the policy's own samples"),
        (of_mode("reverse_kl", reference=True), "pef.pt has no effect with actor.sft_loss_mode=reverse_kl"),
        (of_mode("alpha", store=False), "set actor.use_kl_loss=True (or name the D_pef store in data.sft_pt)"),
        ({f"{ACTOR}alpha_coeff": 0.8}, "alpha_coeff=0.8 has no effect"),
        ({f"{ACTOR}sft_anchor_coeff": 0.1}, "actor.sft_anchor_coeff=0.1 has no effect"),
        ({"data.sft_anchor_batch_size": 4}, "data.sft_anchor_batch_size=4 has no effect"),
        (
            of_mode("js") | {f"{ACTOR}sft_loss_form": "generator", f"{ACTOR}sft_js_exp_weight": 3.0},
            "sft_js_exp_weight=3.0 has no effect with actor.sft_loss_mode=js with sft_loss_form=generator",
        ),
        ({"algorithm.pkpo_k": 4}, "pkpo_k=4 has no effect"),
        ({"reward.reward_manager.name": "rate_limited"}, "rate_limited turns a failure of the scorer into a reward"),
        (CORRECTS | {"actor_rollout_ref.rollout.calculate_log_probs": False}, "rollout_correction.rollout_is=token"),
        (
            {f"{CORRECTION}bypass_mode": True, "actor_rollout_ref.rollout.calculate_log_probs": False},
            "rollout_correction.bypass_mode=True needs the rollout's log-probs: set",
        ),
        ({"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl.type": "adaptive"}, "kl_ctrl.type=adaptive changes"),
        (of_mode("none", store=False) | {f"{ACTOR}sft_loss_coeff": 0.2}, "actor.sft_loss_coeff=0.2 has no effect"),
        (LORA | {f"{MODEL}lora_adapter_path": "/a/b"}, "lora_adapter_path=/a/b verl's reference and the D_pef store"),
        (of_mode("none") | {f"{ACTOR}policy_loss_coeff": 0.5}, "actor.policy_loss_coeff=0.5 has no effect"),
        ({f"{ETA}final_ratio": 0.1}, "final_ratio=0.1 has no effect"),
        # A tangent at 1000 overflows, and the gradient of every token would be NaN, with which verl makes no update.
        ({f"{ACTOR}sft_log_ratio_max": 1000.0}, "sft_log_ratio_max=1000.0 must be less than or equal to 40"),
        (TAIL, "actor.sft_log_ratio_max=1.0 would bias it: set actor.sft_log_ratio_max=null"),
        (of_mode("chi_square") | TAIL | UNBOUNDED, "tail does not exist for actor.sft_loss_mode=chi_square"),
        (of_mode("forward") | TAIL | UNBOUNDED, "tail is what actor.sft_kl_estimator=k1, the default, gives"),
        ({"distillation.enabled": True}, "does not go with distillation.enabled=True"),
        ({f"{ACTOR}shuffle": True}, "actor.shuffle=True does not go with actor.sft_loss_mode=js_low_var: a mini"),
        ({f"{ACTOR}loss_agg_mode": "seq-mean-token-sum"}, "loss_agg_mode=seq-mean-token-sum does not go with"),
        ({f"{POLICY_LOSS}loss_mode": "geo_mean"}, "loss_mode=geo_mean does not go with actor.sft_loss_mode=js"),
        (of_mode("none", store=False) | {f"{POLICY_LOSS}loss_mode": "geo_mean"}, "loss_mode=geo_mean is a mean over"),
        (of_mode("none", store=False) | SUM_NORM, "actor.loss_agg_mode=seq-mean-token-sum-norm divides by the"),
        (CRITIC | {"critic.loss_agg_mode": "seq-mean-token-sum-norm"}, "critic.loss_agg_mode=seq-mean-token-sum-norm"),
        (PKPO, "algorithm.pkpo_k=8 is more than the rollout.n=4 samples of a prompt: lower it"),
        (W_REINFORCE | {"algorithm.success_cap": 0.6, "actor_rollout_ref.rollout.n": 1}, "success_cap=0.6 counts the"),
        (W_REINFORCE | {"algorithm.use_kl_in_reward": True}, "knows a correct response by its reward of 1, which"),
        (W_REINFORCE | FILTERED, "w_reinforce learns from groups without a correct response, which"),
        ({f"{ETA}type": "warmup"}, "warmup_steps=0 must be at least 1 with type=warmup"),
        ({"data.train_batch_size": 16}, "train_batch_size=16 is more than the 8 prompts of data.train_files"),
        ({"data.train_max_samples": 7}, "7 prompts of data.train_files are left by"),
        ({f"{ACTOR}ppo_mini_batch_size": 3}, "8 is not a multiple of actor_rollout_ref.actor.ppo_mini_batch_size=3"),
        ({"data.sft_batch_size": 7}, "sft_batch_size=7 does not divide over 2 mini-batches x 1 data-parallel ranks"),
        (
            {"data.sft_anchor_pt": __file__, "data.sft_anchor_batch_size": 6, "trainer.n_gpus_per_node": 2},
            "sft_anchor_batch_size=6 does not divide over 2 mini-batches x 2 data-parallel ranks",
        ),
        (
            of_mode("reverse_kl", reference=True, store=False) | {"data.sft_anchor_pt": __file__},
            "is rehearsed beside data.sft_pt, which this run does not read",
        ),
        (of_mode("js", reference=True) | {"data.sft_anchor_pt": __file__}, "has stored rows alone, and"),
        ({"algorithm.adv_estimator": "maxrl", "algorithm.use_kl_in_reward": True}, "adv_estimator=maxrl takes the"),
        # 4 ranks in Ulysses groups of 2 are 2 data-parallel ranks
        (ULYSSES | {"trainer.n_gpus_per_node": 4, "data.sft_batch_size": 6}, "over 2 mini-batches x 2 data-parallel"),
        (
            of_mode("none", store=False) | {"trainer.n_gpus_per_node": 3},
            "data.train_batch_size x rollout.n=32 does not divide over 2 mini-batches x 3 data-parallel ranks",
        ),
        (SHORT | {TOKENS: 127}, "is less than the longest row, verl's padding of 128 tokens"),
        ({f"{ACTOR}checkpoint.load_contents": ["weights"]}, "load_contents=['weights'] must be 'model', 'opt"),
        (GAE | {"algorithm.success_cap": 0.6}, "success_cap=0.6 sets the advantages of whole groups to 0"),
        (
            GAE | LORA | of_mode("js", reference=True),
            "lora_rank=8 does not go with both a reference model and a critic, whose pass would switch off",
        ),
        ({"actor_rollout_ref.rollout.mode": "sync"}, "verl rejects these settings: Error in call to target"),
    ],
)
def test_settings_that_contradict_each_other_are_named(run, changes, sentence):
    message = run.rejection(changes)
    assert sentence in message and "\n" not in message


@pytest.mark.parametrize(
    "changes",
    [
        of_mode("reverse_kl", reference=True) | {"data.sft_files": "None", "data.sft_pt": "None"},  # the paper's README
        of_mode("reverse_kl", form="generator"),
        of_mode("alpha"),
        of_mode("alpha", store=False, reference=True),
        of_mode("forward", store=False, reference=True, form="policy"),
        of_mode("js", reference=True) | TAIL | UNBOUNDED,
        # The baselines beside a divergence, and without one.
        PKPO | {"algorithm.pkpo_k": 4},
        GAE,
        GAE | LORA,
        {"algorithm.adv_estimator": "grpo_passk", f"{POLICY_LOSS}loss_mode": "kl_cov"},
        of_mode("none", store=False) | {f"{POLICY_LOSS}loss_mode": "gspo"},
        of_mode("none", store=False) | SUM_NORM | {f"{ACTOR}loss_scale_factor": 1024},
        CORRECTS | {f"{CORRECTION}rollout_rs": "token_k1", f"{CORRECTION}rollout_rs_threshold": "0.5_2.0"},
        SHORT | {TOKENS: 128},
        ULYSSES | {TOKENS: 512},
        {f"{REFERENCE}max_token_len_per_gpu": 1023},  # there is no reference
        FILTERED | {"algorithm.success_cap": 0.6},
        # the reference of a LoRA run is not a second model
        of_mode("js", reference=True) | LORA | {"actor_rollout_ref.ref.strategy": "fsdp"},
    ],
)
def test_settings_that_go_together_are_accepted(run, changes):
    run.prepare(changes)


@pytest.fixture
def copied(run, tmp_path) -> dict:
    """A copy of the run's model in tmp_path; its config.json."""
    shutil.copytree(run.model, tmp_path, dirs_exist_ok=True)
    return json.loads((tmp_path / "config.json").read_text())


def test_a_model_of_images_is_rejected_where_rows_are_token_ids_alone(run, tmp_path, copied):
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "llava", "text_config": copied, "vision_config": {}})
    )
    model = {f"{MODEL}path": str(tmp_path)}
    sentence = f"trains on token ids alone, and {tmp_path} (llava) also takes vision inputs, which would be left out"
    writes = of_mode("none") | {f"{ACTOR}generate_sft": True, "data.sft_wrong_files": run.data}
    for changes in ({}, writes, of_mode("reverse_kl", store=False, reference=True)):
        assert sentence in run.rejection(model | changes)
    (tmp_path / "config.json").write_text("{}")
    assert f"The config.json of actor_rollout_ref.model.path={tmp_path} cannot be used" in run.rejection(model)
    run.prepare(of_mode("none", store=False))


def test_sdpa_is_rejected_where_it_computes_another_model(run, tmp_path, copied):
    """transformers' sdpa ignores the cap on attention logits."""
    gemma = copied | {"model_type": "gemma2", "attn_logit_softcapping": 50.0}
    (tmp_path / "config.json").write_text(json.dumps(gemma))
    capped = of_mode("none", store=False) | {f"{MODEL}path": str(tmp_path)}
    sentence = f"attn_implementation=sdpa leaves out the attn_logit_softcapping=50.0 of {tmp_path}: install"
    assert sentence in run.rejection(capped)
    run.prepare(capped | {f"{MODEL}override_config.attn_implementation": "eager"})
    run.prepare(capped | {f"+{MODEL}override_config.attn_logit_softcapping": None})
    critic = {"algorithm.adv_estimator": "gae", "critic.model.path": str(tmp_path)}
    assert f"critic.model.override_config.{sentence}" in run.rejection(of_mode("none", store=False) | critic)


def test_a_model_folder_without_a_tokenizer_is_named(run, tmp_path):
    shutil.copytree(run.model, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tokenizer*"))
    message = run.rejection({f"{MODEL}path": str(tmp_path)})
    assert message.startswith(f"The tokenizer of {tmp_path} cannot be loaded (") and "\n" not in message
    run.prepare({f"{MODEL}path": str(tmp_path), f"{MODEL}tokenizer_path": run.model})


def test_a_store_is_written_with_the_initial_policy_and_whole_sequences(run):
    writes = of_mode("none") | {f"{ACTOR}generate_sft": True, "data.sft_wrong_files": run.data}
    run.prepare(writes)
    for changes, sentence in (
        (LORA | {f"{MODEL}lora_adapter_path": "/a/b"}, "lora_adapter_path=/a/b would change it"),
        ({"actor_rollout_ref.rollout.ignore_eos": True}, "rollout.ignore_eos=True samples on after the end"),
        ({"data.sft_files": [run.data, run.data]}, "refines one file of prompts, and data.sft_files="),
        ({"data.sft_pt": None}, "data.sft_pt is not set: name its file"),
        ({"data.sft_wrong_files": None}, "data.sft_wrong_files is not set"),
    ):
        assert sentence in run.rejection(writes | changes)


def test_ray_s_cpus_are_counted_on_gpus_too(run, monkeypatch):
    """3 a GPU and 10: with verl's settings for GPUs, TransferQueue has 8 storage units."""
    units = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
    config = run.config({"trainer.device": "cuda", "trainer.n_gpus_per_node": 8, units: 8})
    assert OmegaConf.select(compose("dph_trainer", ["device=cuda"]), units) == 8
    monkeypatch.setattr(rules.ray, "cluster_resources", lambda: {"CPU": 33.0})
    with pytest.raises(UserError, match="8 ranks .* reserve 34 of Ray's CPUs, and Ray has 33"):
        rules.check_ray(config)
    monkeypatch.setattr(rules.ray, "cluster_resources", lambda: {"CPU": 34.0})
    rules.check_ray(config)


def test_what_vllm_does_not_read_is_rejected(run):
    config = run.config({f"+{MODEL}override_config.rms_norm_eps": 1e-5})
    assert not [*model.sampled_as_trained(config)]  # hf gets it
    config.actor_rollout_ref.rollout.name = "vllm"
    [sentence] = model.sampled_as_trained(config)
    assert "override_config.rms_norm_eps=1e-05 does not reach vLLM, which would sample from another model" in sentence
    OmegaConf.update(
        config, "actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides", {"rms_norm_eps": 1e-5}, force_add=True
    )
    assert not [*model.sampled_as_trained(config)]


@pytest.mark.parametrize("device", ["cuda", "cpu_vllm"])
def test_vllm_gets_the_trainers_tokenizer(device):
    config = compose("dph_trainer", [f"device={device}", f"{MODEL}tokenizer_path=/other"])
    assert config.actor_rollout_ref.rollout.name == "vllm"
    assert config.actor_rollout_ref.rollout.engine_kwargs.vllm.tokenizer == "/other"


@pytest.mark.parametrize(
    ("positions", "given", "expected"), [(32768, None, 20096), (8192, None, 8192), (32768, 4096, 4096)]
)
def test_an_engines_context_is_at_most_the_models(run, positions, given, expected):
    lengths = {"data.max_prompt_length": 16000, "data.max_response_length": 4096}
    config = run.config(lengths | {f"+{MODEL}override_config.max_position_embeddings": positions})
    config.actor_rollout_ref.rollout.max_model_len = given
    model.bound_context(config)
    assert config.actor_rollout_ref.rollout.max_model_len == expected


@pytest.mark.parametrize(
    ("rollout", "mode", "top_p", "top_k", "temperature", "rejected"),
    [
        ("vllm", "processed_logprobs", 0.95, -1, 1.0, True),
        ("vllm", "processed_logprobs", 1.0, -1, 0.6, False),
        ("vllm", "raw_logprobs", 1.0, -1, 0.6, True),
        ("hf", "raw_logprobs", 0.95, -1, 0.6, False),
    ],
)
def test_log_probs_of_another_distribution_are_not_the_old_policys(
    run, rollout, mode, top_p, top_k, temperature, rejected
):
    config = run.config({"algorithm.rollout_correction.bypass_mode": True})
    settings = {"name": rollout, "logprobs_mode": mode, "top_p": top_p, "top_k": top_k, "temperature": temperature}
    config.actor_rollout_ref.rollout.update(settings)
    assert len([*rules.rollout_correction(config)]) == rejected
