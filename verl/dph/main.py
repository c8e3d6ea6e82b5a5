"""Train: `python -m verl.dph.main [overrides]`, verl's Hydra settings and those of verl/dph/config/dph_trainer.yaml.

With `actor_rollout_ref.actor.generate_sft=True` it writes the D_pef store instead.
"""

import asyncio
import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer import main_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
from verl.utils.device import auto_set_device

from rl.common.console_log import console_log
from rl.common.errors import UserError
from rl.common.run_lock import sole_run
from rl.common.signals import stoppable_when_armed
from rl.data.rows import Row
from rl.data.training_run import step_of
from verl.dph.config.program import run_main
from verl.dph.cpu.in_process import InProcessActorClass, use_in_process_router
from verl.dph.pef.origin import origin_of
from verl.dph.pef.row_filter import usable
from verl.dph.pef.row_sources import check_given_rows, prompt_settings
from verl.dph.pef.store import Store
from verl.dph.reward.preflight import check_scorer
from verl.dph.sampling.ray_cluster import join_running, on_head
from verl.dph.training import advantages, checkpoint_parts, checks, disk, preflight, resume, tracking
from verl.dph.training.config import has_divergence, rehearses
from verl.dph.training.pef_feed import PefFeed
from verl.dph.training.run_record import RunRecord

logger = logging.getLogger(__name__)

# Advice if another run uses the folder.
OTHER_NAME = "give this run another name (NAME in the scripts, trainer.default_local_dir)"
OTHER_STORE = "name another file in data.sft_pt (SFT_PT in the scripts)"
FINISHED = "This run is finished: to go on, raise trainer.total_training_steps or trainer.total_epochs."

# A Ray actor class cannot be subclassed, the class behind it can.
_TaskRunnerV1: Any = main_ppo.TaskRunnerV1.__ray_metadata__.modified_class


class TaskRunner(_TaskRunnerV1):
    """verl's TaskRunner with our trainers in place of verl's."""

    def run(self, config: DictConfig):
        from verl.trainer.ppo.v1 import trainer_base

        from verl.dph.training.trainer import TRAINERS

        tracking.set_environment(config)
        checks.check_running_ray(config)
        advantages.replace_grpo_passk()
        if config.trainer.device == "cpu":
            use_in_process_router()
        # The modes keep their names, because verl compares them with "sync" in many places.
        trainer_base.TRAINER_REGISTRY.update(TRAINERS)
        return super().run(config)


def check_feed(config: DictConfig, resumed: Path | None) -> None:
    """Reject a D_pef store of another run, and a checkpoint that does not go with the store.

    Args:
        config: of a run with a divergence.
        resumed: the checkpoint that the run continues.
    """
    feed = PefFeed(config, _checked_store(config) if rehearses(config) else None)
    if resumed is not None:
        checkpoint_parts.load(resumed, checkpoint_parts.parts_of(feed))


def _checked_store(config: DictConfig) -> Store:
    """The rows of data.sft_pt that the run can use."""
    path = os.path.expanduser(config.data.sft_pt)
    store = Store.load(path)
    store.check_origin(path, origin_of(config))
    if config.actor_rollout_ref.actor.sft_loss_estimator == "topk" and not store.top_k:
        raise UserError(
            f"D_pef store {path} holds no next-token distributions, which actor.sft_loss_estimator=topk compares: "
            "run get_correct_data_tensor.sh (scripts/llama, scripts/qwen) with data.sft_top_k=64, which adds them, or "
            "use sft_loss_estimator=sampled."
        )
    rows = usable(store, config)
    logger.info("D_pef store %s (%s): rehearsing on %s", path, store.size(path), rows)
    actor = config.actor_rollout_ref.actor
    is_sft = (actor.sft_loss_mode, actor.sft_loss_estimator, actor.sft_kl_estimator) == ("forward", "sampled", "k1")
    if "responses" in store.meta and not is_sft:
        logger.warning(
            "The responses of %s were not sampled from the initial policy, and sft_loss_mode=%s as set here is no "
            "divergence on them; sft_loss_mode=forward with k1, sampled, is supervised fine-tuning.",
            path,
            actor.sft_loss_mode,
        )
    return rows.store


def _turn_off_validation(config: DictConfig) -> None:
    """Without data.val_files, train without validation: verl loads a file in any case, so it is the training file."""
    if config.data.val_files or config.actor_rollout_ref.actor.generate_sft:
        return
    config.data.val_files = config.data.train_files
    config.trainer.update(test_freq=-1, val_before_train=False)
    logger.info("There are no data.val_files: no validation.")


def check_settings(config: DictConfig) -> None:
    """Check the settings and that their files are there, and complete those of a store-writing run."""
    checks.read_none(config)
    _turn_off_validation(config)
    checks.check(config)
    config.trainer.default_local_dir = os.path.expanduser(config.trainer.default_local_dir)  # verl makes a folder "~"
    if config.actor_rollout_ref.actor.generate_sft:
        # Its log-probs are the initial policy's, whatever checkpoint lies in the folder.
        config.trainer.resume_mode = "disable"
        # Its log lies beside the store; verl's default is ./checkpoints.
        config.trainer.default_local_dir = str(Path(config.data.sft_pt).expanduser().with_suffix(".run"))


def checkpoint_to_resume(config: DictConfig) -> tuple[Path | None, str | None]:
    """The checkpoint that the run continues, or None, and the summary if the run is finished, or None."""
    resumed = resume.checkpoint_of(config)
    if resumed is not None:
        resume.check(config, resumed)
        record = RunRecord.load(Path(config.trainer.default_local_dir))
        if record.is_finished(config, step_of(resumed) or 0):
            return resumed, f"{FINISHED}\n{record.summary(config)}"
    return resumed, None


def check_rows(config: DictConfig) -> list[Row]:
    """All rows of the run's prompts, each checked."""
    generates = config.actor_rollout_ref.actor.generate_sft
    return preflight.check_rows(config, prompt_settings(config.data) if generates else ["train_files", "val_files"])


def check_with_verl(config: DictConfig) -> None:
    """Complete the settings of a store-writing run, and let verl check all settings.

    Raises:
        UserError: verl rejects them, in its words.
    """
    if config.actor_rollout_ref.actor.generate_sft:
        with open_dict(config):
            config.data.train_files = config.data.val_files = config.data.sft_files
            config.data.train_batch_size = config.actor_rollout_ref.actor.ppo_mini_batch_size = 1
    auto_set_device(config)
    try:
        # verl prints that all is well, and warns that there is no critic.
        with warnings.catch_warnings(), contextlib.redirect_stdout(None):
            warnings.simplefilter("ignore")
            reference, critic = need_reference_policy(config), need_critic(config)
            validate_config(config=config, use_reference_policy=reference, use_critic=critic)
    except (AssertionError, ValueError) as error:
        raise UserError(f"verl rejects these settings: {error}") from error
    OmegaConf.resolve(config)


def prepare(config: DictConfig) -> str | None:
    """Check everything beyond the settings that can be checked now, and complete the settings of a store-writing run.

    Args:
        config: as check_settings leaves it.

    Returns:
        The summary of a run that is finished, so that nothing is to be started; else None.
    """
    resumed, finished = checkpoint_to_resume(config)
    if finished is not None:
        return finished
    disk.check_room(config, resumed)
    join_running(config)
    rows = check_rows(config)
    if has_divergence(config):
        check_feed(config, resumed)
    elif config.actor_rollout_ref.actor.generate_sft:
        check_given_rows(config)
    asyncio.run(check_scorer(config, rows))
    check_with_verl(config)
    return None


class Arming:
    """An actor class that arms SIGTERM before it starts its actor.

    verl's run_ppo calls ray.init, after which alone SIGTERM can be armed, and then starts the task runner.
    """

    def __init__(self, actor_class: ray.actor.ActorClass, arm: Callable[[], object]):
        self._actor_class, self._arm = actor_class, arm

    def options(self, **options) -> "Arming":
        return Arming(self._actor_class.options(**options), self._arm)

    def remote(self) -> ray.actor.ActorHandle:
        self._arm()
        return self._actor_class.remote()


def _start(config: DictConfig, folder: Path) -> None:
    with stoppable_when_armed() as arm, console_log(folder / "log.txt"):
        logging.getLogger(__package__).info("Starting Ray and loading the model (about 30 s for a small one) ...")
        on_cpu = config.trainer.device == "cpu"
        task_runner = InProcessActorClass(TaskRunner) if on_cpu else ray.remote(resources=on_head())(TaskRunner)
        main_ppo.run_ppo(config, task_runner_class=Arming(task_runner, arm))


def main(config: DictConfig) -> None:
    check_settings(config)
    folder, writes_store = Path(config.trainer.default_local_dir), config.actor_rollout_ref.actor.generate_sft
    with sole_run(folder, OTHER_STORE if writes_store else OTHER_NAME):
        finished = prepare(config)
        if finished is None:
            _start(config, folder)
    if not writes_store:
        sys.stdout.write(f"{finished or RunRecord.load(folder).summary(config)}\n")


if __name__ == "__main__":
    run_main(main, "dph_trainer")
