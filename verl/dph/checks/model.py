"""Rules on a run's models and their distribution over ranks (rules.py lists them), and the check of the tokenizer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, PretrainedConfig
from verl.trainer.ppo.utils import need_reference_policy
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.fs import copy_to_local
from verl.utils.model import update_model_config
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.config.optimizer import build_optimizer

from rl.checks.files import check_model
from rl.checks.finding import Finding, ok, warn
from rl.common.errors import UserError
from rl.common.model_files import cached_config, require_weights, weight_files
from rl.configuration import PADDING_ROW, ulysses_ranks
from verl.dph.config import attention
from verl.dph.hf_rollout.generation import why_not
from verl.dph.sampling.job import override_config, tokenizer_of
from verl.dph.sampling.rollout_engine import ranks_of
from verl.dph.training.config import has_critic, has_divergence, mini_batch_rows, rehearses

# Of a role's micro-batches: the section of the settings, their prefix, and what chooses between tokens and rows (None:
# tokens, always). The rollout's are of the actor's pass for old log-probs.
_MICRO_BATCHES = {
    "actor_rollout_ref.actor": (
        ("actor_rollout_ref.actor", "ppo", "use_dynamic_bsz"),
        ("actor_rollout_ref.rollout", "log_prob", "log_prob_use_dynamic_bsz"),
    ),
    "actor_rollout_ref.ref": (("actor_rollout_ref.ref", "log_prob", "log_prob_use_dynamic_bsz"),),
    "critic": (("critic", "ppo_infer", None),),
}
_MIXED = ("param_dtype", "reduce_dtype", "buffer_dtype")  # of an engine's mixed_precision


@dataclass
class Role:
    """A trained or frozen model of the run, with its settings."""

    name: str
    settings: DictConfig
    engine: DictConfig
    model_name: str
    model: DictConfig

    @property
    def ulysses(self) -> int:
        key = "ulysses_sequence_parallel_size"
        return ulysses_ranks(self.settings[key], self.engine[key])

    @property
    def engine_name(self) -> str:
        return f"{self.name}.{'fsdp' if self.name == 'critic' else 'fsdp_config'}"

    @property
    def attention(self) -> str:
        """The attention implementation; verl's default is in its HFModelConfig (workers/config/model.py)."""
        return self.model.override_config.get(attention.KEY, attention.FLASH)


def roles(config: DictConfig) -> Iterator[Role]:
    """The models that this run builds, the actor first; with LoRA the reference is the actor's base."""
    model_name, model = "actor_rollout_ref.model", config.actor_rollout_ref.model
    names = ["actor"] + (["ref"] if need_reference_policy(config) and not model.lora_rank else [])
    for name in names:
        settings = config.actor_rollout_ref[name]
        yield Role(f"actor_rollout_ref.{name}", settings, settings.fsdp_config, model_name, model)
    if has_critic(config):
        yield Role("critic", config.critic, config.critic.fsdp, "critic.model", config.critic.model)


def models(config: DictConfig) -> Iterator[str]:
    """Settings that would fail in the workers, or would silently compute something else."""
    device, ranks = config.trainer.device, ranks_of(config)
    # The actor and its reference share a model: the Hub is asked once.
    for name, path in dict.fromkeys((role.model_name, str(role.model.path)) for role in roles(config)):
        check_model(f"{name}.path", path)
    for role in roles(config):
        if device == "cpu" and role.settings.strategy != "fsdp2":
            yield (
                f"{role.name}.strategy={role.settings.strategy} does not run with trainer.device=cpu, because torch "
                "distributes FSDP1's initial weights on GPUs only: use fsdp2."
            )
        if role.engine.offload_policy and role.settings.strategy != "fsdp2":
            yield (
                f"{role.engine_name}.offload_policy=True does nothing with {role.name}.strategy="
                f"{role.settings.strategy}: use fsdp2, or param_offload and optimizer_offload."
            )
        if role.ulysses > 1:
            yield from _ulysses(role, ranks)


def _ulysses(role: Role, ranks: int) -> Iterator[str]:
    setting = f"{role.name}.ulysses_sequence_parallel_size={role.ulysses}"
    if ranks % role.ulysses:
        yield f"{setting} does not divide the trainer's {ranks} ranks: use a divisor of {ranks}."
    if not role.model.use_remove_padding:
        yield f"{setting} cuts packed sequences into pieces: set {role.model_name}.use_remove_padding=True."
    # verl exchanges the pieces in the call of flash attention's kernel (models/transformers/monkey_patch.py).
    if "flash" not in role.attention:
        yield (
            f"{setting} needs flash attention, that is, GPUs: with "
            f"{role.model_name}.override_config.attn_implementation={role.attention} every rank would see its own "
            "piece of a sequence only; install flash-attn, or use size 1."
        )
    heads, kv_heads = _heads(config_json(role.model, role.model_name))
    if heads % role.ulysses or (kv_heads % role.ulysses and role.ulysses % kv_heads):
        yield (
            f"{setting} shares out the {heads} attention heads and {kv_heads} key-value heads of {role.model.path}: "
            f"use a divisor of {heads} that divides {kv_heads} or is a multiple of it."
        )


def _heads(described: PretrainedConfig) -> tuple[int, int]:
    """A model's attention heads and those of its keys and values; 0 if config.json does not say them."""
    text = described.get_text_config()
    heads = getattr(text, "num_attention_heads", None) or 0
    return heads, getattr(text, "num_key_value_heads", None) or heads


def tensor_parallel(config: DictConfig) -> Iterator[str]:
    """vLLM gives every GPU of a replica as many heads, and says so once it starts."""
    rollout, model = config.actor_rollout_ref.rollout, config.actor_rollout_ref.model
    heads, _ = _heads(config_json(model))
    if rollout.name == "vllm" and heads % rollout.tensor_model_parallel_size:
        setting = f"actor_rollout_ref.rollout.tensor_model_parallel_size={rollout.tensor_model_parallel_size}"
        yield (f"{setting} does not divide the {heads} attention heads of {model.path}: use a divisor of {heads}.")


def meshes(config: DictConfig) -> Iterator[str]:
    """verl makes a mesh of ranks // fsdp_size replicas of fsdp_size ranks (workers/engine/fsdp/utils.py)."""
    ranks = ranks_of(config)
    for role in roles(config):
        size = role.engine.fsdp_size
        if 0 <= size < ranks and (size == 0 or ranks % size):
            setting = f"{role.engine_name}.fsdp_size={size}"
            yield f"{setting} does not divide the trainer's {ranks} ranks: use a divisor, or -1."


def micro_batches(config: DictConfig) -> Iterator[str]:
    """With use_dynamic_bsz=True a micro-batch must hold the longest row, else its number of rows must be set.

    verl asserts both in its workers.
    """
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if actor.use_dynamic_bsz != rollout.log_prob_use_dynamic_bsz:
        yield (
            f"actor_rollout_ref.rollout.log_prob_use_dynamic_bsz={rollout.log_prob_use_dynamic_bsz} is not "
            f"actor.use_dynamic_bsz={actor.use_dynamic_bsz}, and the actor takes one for both: leave it out."
        )
    longest, words = _longest_row(config.data)
    if longest < PADDING_ROW:
        longest, words = PADDING_ROW, f"verl's padding of {PADDING_ROW} tokens"
    for role in roles(config):
        for name, prefix, switch in _MICRO_BATCHES[role.name]:
            settings = OmegaConf.select(config, name)
            by_tokens, limit = not switch or settings[switch], settings[f"{prefix}_max_token_len_per_gpu"]
            if not by_tokens and settings[f"{prefix}_micro_batch_size_per_gpu"] is None:
                yield (
                    f"{name}.{prefix}_micro_batch_size_per_gpu is not set, and {name}.{switch}=False needs it: name "
                    f"the rows of a micro-batch, or set {switch}=True."
                )
            if by_tokens and limit is not None and limit * role.ulysses < longest:
                ranks = "" if role.ulysses == 1 else f" x {role.ulysses} ranks (Ulysses)"
                yield (
                    f"{name}.{prefix}_max_token_len_per_gpu={limit}{ranks} is less than the longest row, {words}, "
                    "which a micro-batch must hold: raise it, or lower a length."
                )


def rows_of_micro_batches(config: DictConfig) -> Iterator[str]:
    """Without use_dynamic_bsz verl cuts a rank's rows, of an update or of a step's log-probs, into equal parts."""
    if config.actor_rollout_ref.actor.generate_sft:
        return
    correction = config.algorithm.rollout_correction
    for role in roles(config):
        ranks = ranks_of(config) // role.ulysses
        for name, prefix, switch in _MICRO_BATCHES[role.name]:
            settings = OmegaConf.select(config, name)
            takes_rollouts = name.endswith("rollout") and correction and correction.bypass_mode
            if not switch or settings[switch] or takes_rollouts:
                continue
            rows, of = (sum(mini_batch_rows(config)), "a mini-batch") if prefix == "ppo" else (_step(config), "a step")
            micro, both = settings[f"{prefix}_micro_batch_size_per_gpu"], prefix == "ppo" and rehearses(config)
            if rows // ranks % micro:
                yield (
                    f"{name}.{prefix}_micro_batch_size_per_gpu={micro} does not divide the {rows // ranks} rows of "
                    f"{of} per rank{' (D_exp and D_pef together)' if both else ''}: use a divisor, or {switch}=True."
                )


def _step(config: DictConfig) -> int:
    """D_exp rows whose log-probs are computed together, over all ranks, with verl's padding to whole mini-batches."""
    n, mini = config.actor_rollout_ref.rollout.n, config.actor_rollout_ref.actor.ppo_mini_batch_size
    one_update = config.trainer.v1.trainer_mode == "separate_async"
    critics = config.critic.ppo_mini_batch_size if has_critic(config) else 1
    multiple = math.lcm(data_parallel_ranks(config), mini * n, critics * n)
    return math.ceil((mini if one_update else config.data.train_batch_size) * n / multiple) * multiple


def _longest_row(data: DictConfig) -> tuple[int, str]:
    """The tokens of the longest row, and the settings that they come from."""
    longest = data.max_prompt_length + data.max_response_length
    words = f"data.max_prompt_length={data.max_prompt_length} + data.max_response_length={data.max_response_length}"
    return longest, words


def context(config: DictConfig) -> Iterator[str]:
    """An engine ends a response where its context ends, and verl would take it for a complete one."""
    rollout, model = config.actor_rollout_ref.rollout, config.actor_rollout_ref.model
    longest, words = _longest_row(config.data)
    positions = _positions(model)
    limits = {
        f"actor_rollout_ref.rollout.max_model_len={rollout.max_model_len}": rollout.max_model_len,
        f"max_position_embeddings={positions} of {model.path}": positions,
    }
    for setting, limit in limits.items():
        if limit and limit < longest:
            yield (
                f"{setting} is less than the longest row, {words}, so that responses would be cut off: lower a length."
            )


def bound_context(config: DictConfig) -> None:
    """Set a null rollout.max_model_len to the longest row: vLLM would plan its cache for the model's whole context."""
    rollout = config.actor_rollout_ref.rollout
    if rollout.max_model_len is None:
        longest, _ = _longest_row(config.data)
        rollout.max_model_len = min(longest, _positions(config.actor_rollout_ref.model) or longest)


def _positions(model: DictConfig) -> int | None:
    """The tokens of the model's context, if its config.json says it."""
    return getattr(config_json(model).get_text_config(), "max_position_embeddings", None)


def text_only(config: DictConfig) -> Iterator[str]:
    """The actor gets D_pef rows, and D_exp rows in a batch with them, as token ids alone."""
    actor, model = config.actor_rollout_ref.actor, config.actor_rollout_ref.model
    if not (actor.generate_sft or has_divergence(config)):
        return
    described = config_json(model)
    inputs = [kind for kind in ("vision", "audio") if hasattr(described, f"{kind}_config")]
    if inputs:
        setting = "actor.generate_sft=True" if actor.generate_sft else f"actor.sft_loss_mode={actor.sft_loss_mode}"
        yield (
            f"{setting} trains on token ids alone, and {model.path} ({described.model_type}) also takes "
            f"{' and '.join(inputs)} inputs, which would be left out: use a text model, or sft_loss_mode=none."
        )


def config_json(model: DictConfig, name: str = "actor_rollout_ref.model") -> PretrainedConfig:
    """The model's config.json with the changes of model.override_config, as verl's HFModelConfig makes them.

    Args:
        name: of the section in the settings.

    Raises:
        UserError: it cannot be read or changed, or transformers does not know such a model.
    """
    changes = OmegaConf.to_container(model.override_config, resolve=True)
    try:
        found = AutoConfig.from_pretrained(copy_to_local(model.path), trust_remote_code=model.trust_remote_code)
        update_model_config(found, changes.get("model_config", changes))
        return found
    except (OSError, ValueError, AttributeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"The config.json of {name}.path={model.path} cannot be used: {reason}") from error


def sampled_by_hf(config: DictConfig) -> Iterator[str]:
    """The rollout hf needs a model with a cache of keys and values."""
    rollout, model = config.actor_rollout_ref.rollout, config.actor_rollout_ref.model
    # None of a class in the model's folder (trust_remote_code), which the server checks.
    network = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config_json(model)), None)
    if rollout.name == "hf" and network and (reason := why_not(network, model.path)):
        yield reason


def sampled_as_trained(config: DictConfig) -> Iterator[str]:
    """vLLM reads the model's own config.json, and of verl's settings only engine_kwargs (vllm_async_server.py)."""
    rollout, changes = config.actor_rollout_ref.rollout, override_config(config.actor_rollout_ref.model)
    passed = (rollout.engine_kwargs.get("vllm") or {}).get("hf_overrides") or {}
    for name, value in changes.get("model_config", changes).items() if rollout.name == "vllm" else ():
        if passed.get(name) != value:
            yield (
                f"actor_rollout_ref.model.override_config.{name}={value} does not reach vLLM, which would sample from "
                "another model: change the config.json of a copy of the model, or set "
                f"+actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides.{name} too."
            )


def precisions(config: DictConfig) -> Iterator[str]:
    """verl reads them when its workers start; vLLM has names of its own."""
    rollout = config.actor_rollout_ref.rollout
    found = {"actor_rollout_ref.rollout.dtype": rollout.dtype} if rollout.name == "hf" else {}
    for role in roles(config):
        found[f"{role.engine_name}.model_dtype"] = role.engine.model_dtype
        mixed = role.engine.get("mixed_precision") or {}
        found |= {f"{role.engine_name}.mixed_precision.{name}": mixed[name] for name in mixed if name in _MIXED}
    for key, value in found.items():
        try:
            PrecisionType.to_dtype(value)
        except RuntimeError:
            yield f"{key}={value} is unknown: use one of fp32, bf16, fp16."


def soft_capping(config: DictConfig) -> Iterator[str]:
    """sdpa leaves a model's cap on attention logits out."""
    for role in roles(config):
        if role.attention != attention.SDPA:
            continue
        cap = attention.soft_cap(config_json(role.model, role.model_name))
        if cap is not None:
            yield (
                f"{role.model_name}.override_config.{attention.KEY}={attention.SDPA} leaves out the "
                f"attn_logit_softcapping={cap} of {role.model.path}: install flash-attn, or use {attention.EAGER}."
            )


def lora(config: DictConfig) -> Iterator[str]:
    prefix, model = "actor_rollout_ref.model", config.actor_rollout_ref.model
    if not model.lora_rank:
        for name, value in (("lora.rank", model.lora.rank), ("lora_adapter_path", model.lora_adapter_path)):
            if value:
                yield (
                    f"{prefix}.{name}={value} makes no adapter with FSDP, which reads lora_rank: set "
                    f"{prefix}.lora_rank."
                )
        return
    others = {
        "the hf rollout, which takes whole weights": config.actor_rollout_ref.rollout.name == "hf",
        "trainer.v1.trainer_mode=separate_async, which sends rollouts the weights without the adapter": (
            config.trainer.v1.trainer_mode == "separate_async"
        ),
    }
    for other, is_chosen in others.items():
        if is_chosen and not model.lora.merge:
            yield (
                f"{prefix}.lora_rank={model.lora_rank} does not go with {other}, unless it is merged: set "
                f"{prefix}.lora.merge=True."
            )
    # The reference's pass leaves no_lora_adapter in the batch for the critic's (trainer_base.py, _compute_values).
    if has_critic(config) and need_reference_policy(config):
        yield (
            f"{prefix}.lora_rank={model.lora_rank} does not go with both a reference model and a critic, whose pass "
            "would switch off an adapter too: leave out actor.use_kl_loss and algorithm.use_kl_in_reward, or choose an "
            "algorithm.adv_estimator without a critic."
        )
    if "hf_model" in config.actor_rollout_ref.actor.checkpoint.save_contents:
        yield (
            f"actor.checkpoint.save_contents has hf_model, which with {prefix}.lora_rank={model.lora_rank} verl writes "
            "unmerged and under names that no program loads: leave it out, and use python -m verl.model_merger on the "
            "checkpoint."
        )


def weight_transfer(config: DictConfig) -> Iterator[str]:
    """verl sends weights to vLLM in buckets. On a CPU the largest tensor must fit into one.

    On a GPU a larger tensor is sent by a separate CUDA IPC handle (vllm_rollout/bucketed_weight_transfer.py), and nccl
    and nixl split it (checkpoint_engine/base.py, split_weight_chunks). In shared memory, on a CPU, the sender fails an
    assertion and the run waits forever.
    """
    rollout, actor, model = (config.actor_rollout_ref[name] for name in ("rollout", "actor", "model"))
    if config.trainer.device != "cpu" or rollout.name != "vllm":
        return
    described = config_json(model).get_text_config()
    element = PrecisionType.to_dtype(actor.fsdp_config.model_dtype).itemsize
    # The embedding is the largest tensor of a language model.
    needed = math.ceil(described.vocab_size * described.hidden_size * element / 2**20)
    setting = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"
    bucket = rollout.checkpoint_engine.update_weights_bucket_megabytes
    if needed > bucket:
        yield (
            f"{setting}={bucket} is less than the {needed} MiB of the model's embedding ({described.vocab_size} x "
            f"{described.hidden_size}, {actor.fsdp_config.model_dtype}), which vLLM on a CPU takes as a whole: set "
            f"{needed} or more."
        )


def optimizers(config: DictConfig) -> Iterator[str]:
    """verl's workers make an optimizer of any class of any module; this makes it for one parameter."""
    for role in roles(config):
        if "optim" not in role.settings:  # the frozen reference
            continue
        try:
            optim = omega_conf_to_dataclass(role.settings.optim)
        except InstantiationException:  # "verl's checks" say it
            continue
        try:
            build_optimizer([torch.nn.Parameter(torch.zeros(1))], optim)
        except (ImportError, AttributeError, TypeError, ValueError, LookupError) as error:  # others may need a GPU
            yield (
                f"{role.name}.optim makes no optimizer ({error.__cause__ or error}): correct "
                f"optimizer={optim.optimizer}, optimizer_impl={optim.optimizer_impl}, betas={optim.betas} or "
                f"override_optimizer_config={optim.override_optimizer_config}."
            )


def data_parallel_ranks(config: DictConfig) -> int:
    """Ranks that see different rows; the ranks of a Ulysses group see the same ones."""
    return ranks_of(config) // next(roles(config)).ulysses


def check_tokenizer(config: DictConfig) -> Finding:
    """Check that the tokenizer loads, fits config.json and has a chat template; warn if weights are not here yet.

    Raises:
        UserError: naming the model.
    """
    model = config.actor_rollout_ref.model
    text = config_json(model).get_text_config()
    tokenizer = tokenizer_of(model)
    if not (model.custom_chat_template or tokenizer.chat_template):
        raise UserError(
            f"The tokenizer of {model.path} has no chat template, which prompts are made with: give an "
            "instruction-tuned model, or set actor_rollout_ref.model.custom_chat_template."
        )
    if len(tokenizer) > text.vocab_size:
        raise UserError(
            f"The tokenizer of {model.path} has {len(tokenizer)} tokens and its config.json a vocab_size of "
            f"{text.vocab_size}: give a folder whose files belong together."
        )
    found = f"{text.model_type}, {len(tokenizer)} tokens"
    if (folder := Path(model.path).expanduser()).is_dir():
        require_weights(folder)
    elif not ((cached := cached_config(model.path)) and weight_files(cached.parent)):
        return warn(f"{found}; no weights at {model.path} yet", "the run downloads them from the Hugging Face Hub.")
    return ok(found)
