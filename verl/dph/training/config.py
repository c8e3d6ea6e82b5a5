"""The actor's settings with rehearsal, and what follows from a run's settings."""

import warnings
from dataclasses import field, make_dataclass
from typing import Any

from omegaconf import DictConfig
from verl.trainer.ppo.utils import need_critic
from verl.workers.config import FSDPActorConfig

from rl.configuration import ACTOR
from rl.configuration.setting import dataclass_fields
from rl.configuration.training import DIVERGENCES, TRAINING, Eta
from verl.dph.objective.terms import Terms, terms_of

_EtaSettings: Any = make_dataclass("_EtaSettings", dataclass_fields(Eta), frozen=True)


class EtaControl(_EtaSettings):
    """`actor.sft_loss_control` (rl/configuration/training.py)."""


_of_actor = dataclass_fields(*(section for section in TRAINING if section.at == ACTOR))
_Settings: Any = make_dataclass(
    "_Settings",
    [
        *(each for each in _of_actor if each[0] not in FSDPActorConfig.__dataclass_fields__),
        ("sft_loss_control", EtaControl, field(default_factory=EtaControl)),
    ],
    bases=(FSDPActorConfig,),
)


class DPHActorConfig(_Settings):
    """verl's FSDP actor settings and the rehearsal's (rl/configuration/training.py)."""


def rehearses(config: DictConfig) -> bool:
    """Whether this run trains with D_pef rows."""
    return active_forms(config)[0] and not config.actor_rollout_ref.actor.generate_sft


def has_anchor(config: DictConfig) -> bool:
    """Whether this run rehearses an anchor beside D_pef."""
    return rehearses(config) and bool(config.data.sft_anchor_pt)


def anchor_rows(config: DictConfig) -> int:
    """Rows of the anchor in one training step."""
    return config.data.sft_anchor_batch_size or config.data.sft_batch_size


def has_divergence(config: DictConfig) -> bool:
    """Whether this run trains with a divergence to the initial policy, on D_pef or D_exp rows."""
    return any(active_forms(config)) and not config.actor_rollout_ref.actor.generate_sft


def has_critic(config: DictConfig) -> bool:
    """Whether this run trains a critic."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # every call for a run without one warns
        return need_critic(config)


def active_forms(config: DictConfig) -> tuple[bool, bool]:
    """Whether the mode has a divergence on D_pef, and whether it has one on D_exp."""
    actor = config.actor_rollout_ref.actor
    return forms_of(actor.sft_loss_mode, actor.sft_loss_form, has_data=bool(config.data.sft_pt))


def forms_of(mode: str, form: str, has_data: bool) -> tuple[bool, bool]:
    """Whether a mode has a divergence on D_pef, and whether it has one on D_exp.

    Args:
        mode: a name of DIVERGENCES, or "none".
        form: auto (as in the paper), generator (the whole divergence on D_pef) or policy (the whole on D_exp).
        has_data: whether the run has a D_pef store.
    """
    if mode == "none":
        return False, False
    if form != "auto":
        return form == "generator", form == "policy"
    on = DIVERGENCES[mode].on
    if on == "either":
        return has_data, not has_data
    return on in ("pef", "both"), on in ("exp", "both")


def terms(config: DictConfig) -> Terms:
    """The divergences of this run."""
    actor, (on_pef, on_exp) = config.actor_rollout_ref.actor, active_forms(config)
    return terms_of(
        actor.sft_loss_mode,
        on_pef=on_pef,
        on_exp=on_exp,
        alpha=actor.alpha_coeff,
        kl_estimator=actor.sft_kl_estimator,
        baseline=actor.sft_baseline,
    )


def mini_batches(config: DictConfig) -> int:
    """Optimizer mini-batches of one training step."""
    return config.data.train_batch_size // config.actor_rollout_ref.actor.ppo_mini_batch_size


def mini_batch_rows(config: DictConfig) -> tuple[int, int, int]:
    """Rows of D_exp, D_pef and the anchor in an optimizer mini-batch over all ranks."""
    explored = config.actor_rollout_ref.actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
    stored = (
        (config.data.sft_batch_size, rehearses(config)),
        (anchor_rows(config), has_anchor(config)),
    )
    pef, anchor = (rows // mini_batches(config) if there else 0 for rows, there in stored)
    return explored, pef, anchor
