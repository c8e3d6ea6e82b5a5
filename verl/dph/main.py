"""Train: `python -m verl.dph.main [overrides]`, verl's Hydra settings and those of verl/dph/config/dph_trainer.yaml.

With `actor_rollout_ref.actor.generate_sft=True` it writes the D_pef store instead.
"""

import glob
import logging
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
from omegaconf import DictConfig
from verl.trainer import main_ppo

from rl.common.console_log import console_log
from rl.common.fingerprint import file_sha256
from rl.common.run_lock import sole_run
from rl.common.signals import Stopped, stoppable_when_armed
from rl.configuration.methods import next_step
from rl.configuration.names import MAIN, override_value
from rl.data.training_run import CONSOLE, resumes_at
from verl.dph.checks.rules import check_ray
from verl.dph.checks.run import Finished, check
from verl.dph.config.program import chosen_experiment, run_main
from verl.dph.cpu.in_process import InProcessActorClass, use_in_process_queue, use_in_process_router
from verl.dph.objective import advantages
from verl.dph.pef.row_sources import source_of
from verl.dph.sampling.ray_cluster import check_shared_folder, join_running, on_head, services_variables
from verl.dph.training import tracking
from verl.dph.training.run_record import RunRecord

# A Ray actor class cannot be subclassed; the class that it wraps can.
_TaskRunnerV1: Any = main_ppo.TaskRunnerV1.__ray_metadata__.modified_class


class TaskRunner(_TaskRunnerV1):
    """verl's TaskRunner with our trainer.

    Args:
        environment: further variables of this process.
    """

    def __init__(self, environment: Mapping[str, str]):
        super().__init__()
        os.environ.update(environment)

    def run(self, config: DictConfig):
        from verl.trainer.ppo.v1 import trainer_base

        from verl.dph.training.trainer import DPHTrainer

        tracking.set_environment(config)
        check_ray(config)
        if config.trainer.save_freq > 0 and not config.trainer.val_only:
            check_shared_folder(Path(config.trainer.default_local_dir), config.trainer.nnodes)
        advantages.leave_out_padding()
        read_checked_files()
        # verl sorts the rows' workloads while they are a tensor: 113 ms of CPU for the demo's 320 rows, 7 as numbers.
        balanced = trainer_base.get_seqlen_balanced_partitions
        trainer_base.get_seqlen_balanced_partitions = lambda work, **settings: balanced(work.tolist(), **settings)
        if config.trainer.device == "cpu":
            use_in_process_router()
            use_in_process_queue()
        # Under verl's name, because verl compares the mode with "sync" in many places.
        trainer_base.TRAINER_REGISTRY["sync"] = DPHTrainer
        return super().run(config)


def read_checked_files() -> None:
    """Let verl read the files that were checked: datasets takes a path for a pattern, so that run[1] names run1, and
    keeps rows by a file's path and time alone."""
    import datasets
    from verl.utils.dataset import rl_dataset

    def load_dataset(kind: str, data_files: str) -> datasets.DatasetDict:
        path = os.path.expanduser(data_files)
        return datasets.load_dataset(kind, name=file_sha256(path)[:16], data_files=glob.escape(path))

    rl_dataset.datasets = SimpleNamespace(**vars(datasets) | {"load_dataset": load_dataset})


class Arming:
    """The actor class of the task runner. It arms SIGTERM before it starts its actor.

    SIGTERM can only be armed after ray.init, which verl's run_ppo calls before it starts the task runner.
    """

    def __init__(self, actor_class: ray.actor.ActorClass, arm: Callable[[], object], *arguments: Any):
        self._actor_class, self._arm, self._arguments = actor_class, arm, arguments

    def options(self, **options) -> "Arming":
        return Arming(self._actor_class.options(**options), self._arm, *self._arguments)

    def remote(self) -> ray.actor.ActorHandle:
        self._arm()
        return self._actor_class.remote(*self._arguments)


def _start(config: DictConfig, folder: Path) -> None:
    join_running(config)
    with stoppable_when_armed() as arm, console_log(folder / CONSOLE):
        logging.getLogger(__package__).info("Starting Ray and loading the model (about 30 s for a small one) ...")
        on_cpu = config.trainer.device == "cpu"
        task_runner = InProcessActorClass(TaskRunner) if on_cpu else ray.remote(resources=on_head())(TaskRunner)
        main_ppo.run_ppo(config, task_runner_class=Arming(task_runner, arm, services_variables()))


def main(config: DictConfig) -> None:
    try:
        run = check(config, MAIN)
    except Finished as finished:
        sys.stdout.write(f"{finished}\n")
        return
    with sole_run(run.folder, run.instead):
        try:
            _start(config, run.folder)
        except (KeyboardInterrupt, Stopped):
            if not run.writes_store:
                sys.stderr.write(f"{resumes_at(run.folder)}\n")
            raise
    if not run.writes_store:
        sys.stdout.write(f"{RunRecord.load(run.folder).summary(config)}\n")
    elif experiment := chosen_experiment():
        # Rows that are not the refinement's are for the recipe (docs/howto/train.md).
        command = f"dph train {'recipe' if source_of(config.data) else 'js_kl'} my_run"
        if config.data.sft_coverage == "all":
            command += f" {shlex.quote(f'data.sft_anchor_pt={override_value(config.data.sft_pt)}')}"
        sys.stdout.write(next_step(command, experiment))


if __name__ == "__main__":
    run_main(main, MAIN)
