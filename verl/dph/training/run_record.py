"""The progress of a run: steps, validations, checkpoints, the best one, and what is said at the end."""

import hashlib
import json
import logging
import math
import shlex
import shutil
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rl.checks.files import files_of
from rl.common import atomic_write
from rl.common.fingerprint import file_sha256
from rl.configuration.names import override_value
from rl.data.training_run import BEST, RECORD, RECORD_FORMAT, VERDICT, checkpoint_folder, read_record
from rl.evaluation.spec import BASE
from verl.dph.sampling.job import chat_template
from verl.dph.training.rollout_metrics import ACCURACY

logger = logging.getLogger(__name__)


def validation_source(config: DictConfig) -> str:
    """sha256 of what trainer.best_metric depends on besides the policy: validation's files, prompts and sampling, and
    the scorer's rules."""
    files = [file_sha256(path) for path in files_of(config.data.val_files)]
    samples = OmegaConf.to_container(config.actor_rollout_ref.rollout.val_kwargs)
    judged = chat_template(config), config.data.max_response_length, OmegaConf.select(config, VERDICT) or ""
    nothing: dict = {}  # in the records of earlier versions
    parts = [sorted(files), config.data.val_max_samples, samples, nothing, judged]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass
class RunRecord:
    """A run in numbers, kept in folder/dph_run.json.

    Attributes:
        folder: of the run, trainer.default_local_dir.
        metric: the metric of `validations`: trainer.best_metric, or dph/val_accuracy.
        step: the last one trained.
        total_steps: of the whole run.
        steps_per_epoch: training steps of one pass over the prompts.
        validations: the metric by step; 0 is the initial policy.
        validated_on: what the values of `validations` depend on beside the policy (validation_source).
        checkpoints: steps that were saved, including those that verl has deleted since.
    """

    folder: Path
    metric: str | None = None
    step: int = 0
    total_steps: int = 0
    steps_per_epoch: int = 0
    validations: dict[int, float] = field(default_factory=dict)
    validated_on: str = ""
    checkpoints: list[int] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path) -> "RunRecord":
        """The record in `folder`, or an empty one.

        Raises:
            UserError: the file is damaged or something else.
        """
        content = read_record(folder)
        if content is None:
            return cls(folder)
        content["validations"] = {int(step): value for step, value in content["validations"].items()}
        known = {field.name for field in fields(cls)} & content.keys()
        return cls(folder, **{name: content[name] for name in known})

    def save(self) -> None:
        """Write dph_run.json and the file that names the best checkpoint, each atomically."""
        content = {name: value for name, value in asdict(self).items() if name != "folder"}
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic_write.write_text(self.folder / RECORD, json.dumps({"format": RECORD_FORMAT} | content, indent=2) + "\n")
        best = self.best()
        if best is None:
            (self.folder / BEST).unlink(missing_ok=True)
        else:
            atomic_write.write_text(self.folder / BEST, str(best))

    def resumed_at(self, step: int) -> None:
        """Forget what came after the checkpoint that the run continues from; step 0 is a new run."""
        if step == 0:
            self.validations = {}
        self.step = step
        self.validations = {at: value for at, value in self.validations.items() if at <= step}
        self.checkpoints = [at for at in self.checkpoints if at <= step]

    def validated(self, step: int, metrics: dict[str, float], metric: str | None, source: str = "") -> str | None:
        """Record a validation, and forget those on other files or with other settings.

        Args:
            metrics: all of it.
            metric: trainer.best_metric.
            source: validation_source of the run.

        Returns:
            A sentence if `metric` is missing or not a number; then nothing is recorded.
        """
        title = metric or ACCURACY
        if title not in metrics:
            wanted, found = f"trainer.best_metric={metric}" if metric else ACCURACY, ", ".join(sorted(metrics))
            return f"{wanted} is not among the metrics of validation ({found}): no checkpoint counts as the best"
        value = float(metrics[title])
        if not math.isfinite(value):
            return f"{title} is {value} in step {step}, which cannot be the best"
        if title != self.metric or self.validated_on not in ("", source):
            if self.validations:
                logger.info(
                    "%d validations on other data, with other settings or of another metric no longer count for the "
                    "best checkpoint",
                    len(self.validations),
                )
            self.metric, self.validations = title, {}
        self.validated_on = source
        self.validations[step] = value
        return None

    def saved(self, step: int) -> None:
        """Record a checkpoint."""
        self.checkpoints = sorted({*self.checkpoints, step})

    def delete_older(self, role: str, keep: int | None) -> None:
        """Delete what a role saved in all checkpoints but the newest `keep`; None, 0 or less keeps all.

        verl does so with the checkpoints of one session, and keeps those from before a resume for good.
        """
        for step in self.checkpoints[:-keep] if keep and keep > 0 else ():
            shutil.rmtree(checkpoint_folder(self.folder, step) / role, ignore_errors=True)

    def best(self) -> int | None:
        """The step with the highest validation among existing checkpoints (the first of equals), or None."""
        there = [step for step in sorted(self.validations) if self._is_there(step)]
        return max(there, key=self.validations.__getitem__, default=None)

    def _is_there(self, step: int) -> bool:
        """Whether this run saved a checkpoint in `step` and verl has not deleted its weights."""
        return step in self.checkpoints and (checkpoint_folder(self.folder, step) / "actor").is_dir()

    def is_finished(self, config: DictConfig, step: int) -> bool:
        """Whether no step is left after `step`, as verl counts them (trainer_base.py, fit)."""
        trainer = config.trainer
        limits = [self.steps_per_epoch * trainer.total_epochs, trainer.total_training_steps]
        return self.steps_per_epoch > 0 and not trainer.val_only and step >= min(x for x in limits if x is not None)

    def summary(self, config: DictConfig) -> str:
        """The step that the run has reached, its newest and its best checkpoint, and the command that evaluates it."""
        best, newest = self.best(), checkpoint_folder(self.folder, self.step)
        reached = f"{config.trainer.experiment_name}: step {self.step} of {self.total_steps}"
        if not self._is_there(self.step):
            return f"{reached}. No checkpoint (trainer.save_freq={config.trainer.save_freq})."
        of_best = "" if best is None else f", best: {checkpoint_folder(self.folder, best)}"
        # Without validation files checks/run.py sets val_files to train_files.
        validates = config.data.val_files != config.data.train_files
        files = files_of(config.data.val_files) if validates else [Path("FILE.parquet")]
        splits = {f"split_{number}": path for number, path in enumerate(dict.fromkeys(files), 1)}
        command = [
            *("dph", "evaluate"),
            f"evaluate.models={{{BASE}:{override_value(config.actor_rollout_ref.model.path)},"
            f"trained:{override_value(newest)}}}",
            f"evaluate.splits={{{','.join(f'{name}:{override_value(path)}' for name, path in splits.items())}}}",
            f"evaluate.output={override_value(self.folder / 'evaluation')}",
            *(f"data.{name}={config.data[name]}" for name in ("max_prompt_length", "max_response_length")),
        ]
        return f"{reached}. Checkpoint: {newest}{of_best}\nNext: {shlex.join(command)}"
