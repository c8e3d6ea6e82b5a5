"""Checks of how models are built and spread over devices: FSDP1, Ulysses, LoRA, flash attention, and the critic."""

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from omegaconf import DictConfig
from verl.trainer.ppo.utils import need_critic, need_reference_policy

from rl.common.errors import UserError

MODEL = "actor_rollout_ref.model"
FLASH = "flash_attention_2"


@dataclass
class Role:
    """One of the trained or frozen models of a run: where its settings stand, and they."""

    name: str
    settings: DictConfig
    engine: DictConfig
    model_name: str
    model: DictConfig

    @property
    def ulysses(self) -> int:
        """Ranks that share one sequence; verl has an old and a new name for it, and the old one wins."""
        old = self.settings.ulysses_sequence_parallel_size
        return old if old > 1 else self.engine.ulysses_sequence_parallel_size

    @property
    def attention(self) -> str:
        """verl's default is in its HFModelConfig (workers/config/model.py)."""
        return self.model.override_config.get("attn_implementation", FLASH)


def actor(config: DictConfig) -> Role:
    settings = config.actor_rollout_ref.actor
    return Role("actor_rollout_ref.actor", settings, settings.fsdp_config, MODEL, config.actor_rollout_ref.model)


def roles(config: DictConfig) -> Iterator[Role]:
    """The models that this run builds; with LoRA the reference is the actor's base."""
    yield actor(config)
    model = config.actor_rollout_ref.model
    if need_reference_policy(config) and not model.lora_rank:
        settings = config.actor_rollout_ref.ref
        yield Role("actor_rollout_ref.ref", settings, settings.fsdp_config, MODEL, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # verl warns at every look that there is no critic
        if need_critic(config):
            yield Role("critic", config.critic, config.critic.fsdp, "critic.model", config.critic.model)


def check(config: DictConfig) -> None:
    """Refuse what would fail in the workers, or would silently compute something else.

    Raises:
        UserError: naming the setting, what was found and what to do.
    """
    for role in roles(config):
        _check_folder(role)
        _check_strategy(role, config.trainer.device)
        _check_ulysses(role, config.trainer.n_gpus_per_node * config.trainer.nnodes)
        _check_attention(role, config.trainer.device)
    _check_lora(config)
    if config.actor_rollout_ref.actor.generate_sft:
        _check_store_writing(config)


def _check_folder(role: Role) -> None:
    path = str(role.model.path)
    looks_local = path.startswith(("/", ".", "~")) or path.count("/") > 1
    if looks_local and not os.path.isfile(os.path.join(os.path.expanduser(path), "config.json")):
        raise UserError(f"{role.model_name}.path={path} holds no config.json: give the folder of a Hugging Face model.")


def _check_strategy(role: Role, device: str) -> None:
    if device == "cpu" and role.settings.strategy != "fsdp2":
        raise UserError(
            f"{role.name}.strategy={role.settings.strategy} does not run with trainer.device=cpu, because torch "
            "hands out "
            "FSDP1's initial weights on GPUs only: use fsdp2."
        )


def _check_ulysses(role: Role, ranks: int) -> None:
    size, model = role.ulysses, role.model
    if size == 1:
        return
    setting = f"{role.name}.ulysses_sequence_parallel_size={size}"
    if ranks % size:
        raise UserError(f"{setting} does not divide the trainer's {ranks} ranks: use a divisor of {ranks}.")
    if not model.use_remove_padding:
        raise UserError(f"{setting} cuts packed sequences into pieces: set {role.model_name}.use_remove_padding=True.")
    # verl exchanges the pieces in the call of flash attention's kernel (models/transformers/monkey_patch.py).
    if "flash" not in role.attention:
        raise UserError(
            f"{setting} needs flash attention, that is, GPUs: with "
            f"{role.model_name}.override_config.attn_implementation="
            f"{role.attention} every rank would see its own piece of a sequence only; use {FLASH}, or size 1."
        )


def _check_attention(role: Role, device: str) -> None:
    # transformers takes the kernel from the Hub where the package `kernels` is installed.
    if device != "cuda" or role.attention != FLASH or find_spec("flash_attn") or find_spec("kernels"):
        return
    raise UserError(
        f"{role.model_name} uses {FLASH}, verl's default, and the package flash-attn is not installed: install it (pip "
        f"install --no-build-isolation flash-attn==2.8.3), or set +{role.model_name}.override_config."
        "attn_implementation=sdpa, which computes the same."
    )


def _check_lora(config: DictConfig) -> None:
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    for name, value in (("lora.rank", model.lora.rank), ("lora_adapter_path", model.lora_adapter_path)):
        if value and not model.lora_rank:
            raise UserError(
                f"{MODEL}.{name}={value} makes no adapter with FSDP, which goes by lora_rank: set {MODEL}.lora_rank."
            )
    if not model.lora_rank:
        return
    if rollout.name == "hf" and not model.lora.merge:
        raise UserError(
            f"{MODEL}.lora_rank={model.lora_rank} does not go with the hf rollout, which takes whole weights, "
            "unless they are "
            f"merged: set {MODEL}.lora.merge=True."
        )
    if "hf_model" in config.actor_rollout_ref.actor.checkpoint.save_contents:
        raise UserError(
            f"actor.checkpoint.save_contents has hf_model, which with {MODEL}.lora_rank={model.lora_rank} verl "
            "writes unmerged "
            "and under names that no program loads: leave it out, and use python -m verl.model_merger on the "
            "checkpoint."
        )


def _check_store_writing(config: DictConfig) -> None:
    path, size = config.actor_rollout_ref.model.lora_adapter_path, actor(config).ulysses
    if path:
        raise UserError(
            f"actor.generate_sft=True writes what {MODEL}.path alone answers, and {MODEL}.lora_adapter_path={path} "
            "would "
            "change it: set it to null."
        )
    if size > 1 and config.data.sft_top_k:
        raise UserError(
            f"data.sft_top_k={config.data.sft_top_k} is taken from whole sequences, and "
            f"actor.ulysses_sequence_parallel_size={size} cuts them: write the store with size 1, it fits every size."
        )
