"""Checks of a run's configuration that need no verl; the launcher and the programs of verl.dph run them.

CHECKS lists them. Those that need verl's classes are in verl/dph/checks.
"""

from collections.abc import Collection
from dataclasses import dataclass

from omegaconf import DictConfig, OmegaConf

from rl.checks.files import check_file, check_model, files_of, needed_files
from rl.checks.finding import Check, Finding, enforce, ok, skipped
from rl.common.errors import UserError
from rl.configuration.compose import CONFIG_OF
from rl.configuration.names import MAIN
from rl.configuration.programs import PROGRAMS
from rl.configuration.settle import check_composed

# Estimators that compare the responses to a prompt; one response is its own advantage, or none.
GROUP_ESTIMATORS = ("maxrl", "grpo", "grpo_vectorized", "grpo_passk", "rloo", "rloo_vectorized", "opo", "gpg")
# Estimators whose advantages do not sum to 0 in a group.
UNCENTRED = ("w_reinforce", "pkpo", "grpo_passk")


@dataclass
class Subject:
    """What is checked.

    Attributes:
        config: composed for the program; before or after rl.configuration.settle.settle.
        program: its module.
    """

    config: DictConfig
    program: str

    @property
    def trains(self) -> bool:
        return self.program == MAIN and not self.config.actor_rollout_ref.actor.generate_sft


def check(config: DictConfig, program: str, without: Collection[str] = ()) -> None:
    """Reject what cannot work.

    Args:
        without: names of checks that are left out.
    """
    enforce(CHECKS, Subject(config, program), without)


def settings(subject: Subject) -> Finding:
    """The type and range of each setting (rl/configuration)."""
    config = subject.config
    check_composed(config, PROGRAMS[CONFIG_OF[subject.program]])
    return ok(f"{config.trainer.nnodes} x {config.trainer.n_gpus_per_node} ranks on {config.trainer.device}")


def batch(subject: Subject) -> Finding:
    """A batch is whole mini-batches: verl fills the last one with rows that teach nothing. It drops the last, partial
    batch of an epoch: with fewer prompts than a batch it would make no step."""
    if not subject.trains:
        return skipped("nothing is trained")
    import pyarrow.parquet as pq

    size, mini = subject.config.data.train_batch_size, subject.config.actor_rollout_ref.actor.ppo_mini_batch_size
    if size % mini:
        raise UserError(
            f"data.train_batch_size={size} is not a multiple of actor_rollout_ref.actor.ppo_mini_batch_size={mini}: "
            "make it one."
        )
    try:
        prompts = sum(pq.read_metadata(file).num_rows for file in files_of(subject.config.data.train_files))
    except (OSError, ValueError):
        return skipped("data.train_files cannot be read")
    if prompts < size:
        raise UserError(
            f"data.train_batch_size={size} is more than the {prompts} prompts of data.train_files, and a step needs a "
            "whole batch: lower it (to a multiple of ppo_mini_batch_size), or give more prompts."
        )
    return ok(f"{prompts:,} prompts in batches of {size}")


def groups(subject: Subject) -> Finding:
    """The advantages can be a policy gradient in a group (docs/explanation/baselines.md)."""
    actor, rollout = subject.config.actor_rollout_ref.actor, subject.config.actor_rollout_ref.rollout
    name = subject.config.algorithm.adv_estimator
    estimator = f"algorithm.adv_estimator={name}"
    if not subject.trains or not actor.policy_loss_coeff:
        return skipped("there is no policy loss")
    if name in GROUP_ESTIMATORS and rollout.n < 2:
        raise UserError(
            f"{estimator} compares the responses to a prompt, and there is one (actor_rollout_ref.rollout.n="
            f"{rollout.n}): use 2 or more (1 without RL, actor.policy_loss_coeff=0)."
        )
    if name in UNCENTRED and (rollout.top_p < 1 or rollout.top_k > 0):
        raise UserError(
            f"{estimator} has advantages that do not sum to 0 in a group. Sampled at top_p={rollout.top_p} and "
            f"top_k={rollout.top_k} they are not a policy gradient: log-probs are of the full softmax, and the mean "
            "advantage would raise or lower the probability of all tokens that can be sampled. Set "
            "actor_rollout_ref.rollout.top_p=1 and top_k=-1."
        )
    return ok(f"{estimator}, {rollout.n} samples a prompt")


def files(subject: Subject) -> Finding:
    """The files that the run reads exist."""
    found = [
        file
        for key in needed_files(subject.config, subject.program)
        for file in files_of(OmegaConf.select(subject.config, key))
        if check_file(key, file)
    ]
    return ok(f"all {len(found)} exist" if found else "none are named")


def model(subject: Subject) -> Finding:
    """The model's folder holds a model, or its name may be one on the Hub."""
    path = str(subject.config.actor_rollout_ref.model.path)
    check_model("actor_rollout_ref.model.path", path, ask_hub=False)
    return ok(path)


# Run in this order. A new check is a function of the subject, and a line here.
CHECKS = (
    Check("settings", settings),
    Check("groups", groups, needs=("settings",)),
    Check("batch", batch, needs=("settings",)),
    Check("files", files, needs=("settings",)),
    Check("model", model),
)
# The checks that a dry run leaves out.
OF_FILES = ("files", "model")
