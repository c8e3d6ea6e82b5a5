"""Rules on a run's models and their distribution over ranks (rules.py lists them), and the check of the tokenizer."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from transformers import AutoConfig, PretrainedConfig
from verl.trainer.ppo.utils import need_reference_policy
from verl.utils.fs import copy_to_local
from verl.utils.model import update_model_config

from rl.checks.finding import Finding, ok, warn
from rl.common.errors import UserError
from rl.common.model_files import cached_config, require_weights, weight_files
from rl.configuration import PADDING_ROW
from verl.dph.config import attention
from verl.dph.sampling.job import override_config, tokenizer_of
from verl.dph.sampling.rollout_engine import ranks_of
from verl.dph.training.config import has_critic, has_divergence


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
        """Ranks that share one sequence; the role's setting, verl's older one, wins over its engine's."""
        key = "ulysses_sequence_parallel_size"
        return self.settings[key] if self.settings[key] > 1 else self.engine[key]

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


def _longest_row(data: DictConfig) -> tuple[int, str]:
    """The tokens of the longest row, and the settings that they come from."""
    longest = data.max_prompt_length + data.max_response_length
    words = f"data.max_prompt_length={data.max_prompt_length} + data.max_response_length={data.max_response_length}"
    return longest, words


def ulysses(config: DictConfig) -> Iterator[str]:
    """verl exchanges the pieces in the call of flash attention's kernel (models/transformers/monkey_patch.py)."""
    for role in roles(config):
        if role.ulysses > 1 and "flash" not in role.attention:
            yield (
                f"{role.name}.ulysses_sequence_parallel_size={role.ulysses} needs flash attention, that is, GPUs: with "
                f"{role.model_name}.override_config.attn_implementation={role.attention} every rank would see its own "
                "piece of a sequence only; install flash-attn, or use size 1."
            )


def micro_batches(config: DictConfig) -> Iterator[str]:
    """A micro-batch of a number of tokens must hold the longest row, which may come after days."""
    longest, words = _longest_row(config.data)
    if longest < PADDING_ROW:
        longest, words = PADDING_ROW, f"verl's padding of {PADDING_ROW} tokens"
    settings, ranks = config.actor_rollout_ref, next(roles(config)).ulysses
    prefixes = {"actor": "ppo", "rollout": "log_prob"} | ({"ref": "log_prob"} if need_reference_policy(config) else {})
    for name, prefix in prefixes.items():
        limit = settings[name][f"{prefix}_max_token_len_per_gpu"]
        by_tokens = settings[name]["use_dynamic_bsz" if name == "actor" else "log_prob_use_dynamic_bsz"]
        if by_tokens and limit is not None and limit * ranks < longest:
            yield (
                f"actor_rollout_ref.{name}.{prefix}_max_token_len_per_gpu={limit} (x {ranks} ranks of Ulysses) is less "
                f"than the longest row, {words}, which a micro-batch must hold: raise it, or lower a length."
            )


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
    # The reference's pass leaves no_lora_adapter in the batch for the critic's (trainer_base.py, _compute_values).
    if has_critic(config) and need_reference_policy(config):
        yield (
            f"{prefix}.lora_rank={model.lora_rank} does not go with both a reference model and a critic, whose pass "
            "would switch off an adapter too: leave out actor.use_kl_loss and algorithm.use_kl_in_reward, or choose an "
            "algorithm.adv_estimator without a critic."
        )


def data_parallel_ranks(config: DictConfig) -> int:
    """Ranks that see different rows; the ranks of a Ulysses group see the same ones."""
    return ranks_of(config) // next(roles(config)).ulysses


def check_tokenizer(config: DictConfig) -> Finding:
    """Reject a tokenizer that does not load, fit config.json or have a chat template; warn if weights are missing."""
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
        return warn(f"{found}; no weights at {model.path} yet: the run downloads them from the Hugging Face Hub.")
    return ok(found)
