"""What a run records beside its checkpoints, and its summary."""

import shlex

import pytest
import ray
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from rl.common.errors import UserError
from rl.configuration.compose import compose
from tests.training.conftest import SCORER
from tests.training.test_resume import STEP, save_checkpoint
from verl.dph import main
from verl.dph.checks.run import FINISHED
from verl.dph.training.rollout_metrics import validation_metrics
from verl.dph.training.run_record import RunRecord, validation_source
from verl.dph.training.trainer import DPHTrainer


def test_a_finished_run_says_so_and_starts_nothing(run, capsys, monkeypatch):
    folder = save_checkpoint(run)
    record = RunRecord(run.folder, step=STEP, total_steps=STEP, steps_per_epoch=1)
    record.validated(STEP, {"dph/val_accuracy": 0.5}, None)
    record.saved(STEP)
    record.save()
    monkeypatch.setattr(main.main_ppo, "run_ppo", lambda *args, **kwargs: pytest.fail("training starts"))
    changes = {"trainer.total_training_steps": STEP, "trainer.total_epochs": 9, "trainer.experiment_name": "my_run"}
    changes |= {"data.val_files": [run.data], SCORER: "http://127.0.0.1:9"}  # nobody is asked
    config = run.config(changes)
    capsys.readouterr()
    main.main(config)
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [FINISHED, f"my_run: step 4 of 4. Checkpoint: {folder}, best: {folder}"]
    program, *overrides = shlex.split(said[2])[2:]
    evaluation = compose("evaluate", overrides).evaluate
    assert program == "evaluate" and evaluation.models == {"base": run.model, "trained": str(folder)}
    assert evaluation.splits == {"split_1": run.data}


@pytest.mark.parametrize(
    ("trainer", "finished"),
    [
        ({"total_training_steps": 4}, True),
        ({"total_training_steps": 5}, False),
        ({"total_training_steps": 9, "total_epochs": 2}, True),  # the epochs end first
        ({"total_epochs": 3}, False),
        ({"total_training_steps": 4, "val_only": True}, False),
    ],
)
def test_a_run_is_finished_when_no_step_is_left(run, trainer, finished):
    config = run.config({f"trainer.{name}": value for name, value in trainer.items()})
    assert RunRecord(run.folder, steps_per_epoch=2).is_finished(config, STEP) == finished
    assert not RunRecord(run.folder).is_finished(config, STEP)  # of an older version


def record_with(folder, values, checkpoints, metric=None):
    """A record after validations {step: value}, with checkpoints of some steps."""
    record = RunRecord(folder)
    for step in checkpoints:
        (folder / f"global_step_{step}" / "actor").mkdir(parents=True, exist_ok=True)
        record.saved(step)
    for step, value in values.items():
        assert record.validated(step, {"dph/val_accuracy": value / 2, "val-core/a/acc/mean@1": value}, metric) is None
    record.save()
    return RunRecord.load(folder)


def best_file(folder):
    path = folder / "best_checkpointed_iteration.txt"
    return path.read_text() if path.exists() else None


def test_the_best_is_the_highest_validation_that_has_a_checkpoint(tmp_path):
    record = record_with(tmp_path, {0: 0.9, 10: 0.4, 20: 0.6, 25: 0.8, 30: 0.6}, [10, 20, 30])
    assert record.best() == 20 and best_file(tmp_path) == "20"
    assert record.metric == "dph/val_accuracy"
    assert record.validations[20] == 0.3
    (tmp_path / "global_step_20" / "actor").rmdir()  # as max_actor_ckpt_to_keep does
    record.save()
    assert best_file(tmp_path) == "30"
    record.resumed_at(10)
    record.save()
    assert record.validations == {0: 0.45, 10: 0.2} and best_file(tmp_path) == "10"
    record.resumed_at(0)
    record.validated(10, {"dph/val_accuracy": 1.0}, None)
    record.save()
    assert best_file(tmp_path) is None  # the checkpoint of that step is one of the run that was begun anew


def test_checkpoints_of_earlier_sessions_are_not_kept_for_good(tmp_path):
    record = record_with(tmp_path, {10: 0.9, 20: 0.4, 30: 0.6}, [10, 20, 30])
    (tmp_path / "global_step_10" / "critic").mkdir()
    for keep in (None, 0, -1, 3, 2):
        assert (tmp_path / "global_step_10" / "actor").is_dir()
        record.delete_older("actor", keep)
    left = sorted(str(folder.relative_to(tmp_path)) for folder in tmp_path.glob("global_step_*/*"))
    assert left == ["global_step_10/critic", "global_step_20/actor", "global_step_30/actor"]
    assert record.best() == 30


def test_the_only_checkpoint_stays_until_the_file_names_its_successor(tmp_path, monkeypatch):
    """With max_actor_ckpt_to_keep=1 verl deletes it before the critic, the data's place and that file are written."""
    trainer, seen = object.__new__(DPHTrainer), []
    keeps = {"max_actor_ckpt_to_keep": 1, "max_critic_ckpt_to_keep": 3}
    trainer.config = OmegaConf.create({"trainer": {"default_local_dir": str(tmp_path)} | keeps})
    trainer.manifest, trainer.parts, trainer.record = {}, {}, RunRecord(tmp_path)

    def save(self):
        (tmp_path / f"global_step_{self.global_steps}" / "actor").mkdir()
        seen.append([self.config.trainer[name] for name in keeps])

    monkeypatch.setattr(PPOTrainerSync, "_save_checkpoint", save)
    monkeypatch.setattr(ray, "cluster_resources", dict)
    for trainer.global_steps in (1, 2):
        trainer._save_checkpoint()
    assert seen == [[None, 3]] * 2 and trainer.config.trainer.max_actor_ckpt_to_keep == 1
    assert [folder.parent.name for folder in tmp_path.glob("global_step_*/actor")] == ["global_step_2"]


def test_a_failed_rollout_leaves_the_metric_and_earlier_validations(tmp_path):
    """verl has mean@2 of the whole groups alone, and mean@1 if every group has lost a rollout."""
    record = RunRecord(tmp_path)
    for step, accuracies, prompts in ((1, (1, 0, 0, 0), "ppqq"), (2, (1, 1, 0), "pqq"), (3, (1, 0), "pq")):
        infos = {"acc": accuracies, "reward": accuracies}
        assert record.validated(step, validation_metrics(["sql"] * len(prompts), prompts, infos, "pq", 2), None) is None
    assert record.metric == "dph/val_accuracy" and record.validations == {1: 0.25, 2: 0.75, 3: 0.5}
    assert "dph/val_accuracy is not among the metrics" in record.validated(4, {"dph/pass@1": 0.7}, None)


def test_validations_of_other_data_or_settings_are_not_compared(tmp_path, run):
    sources = [
        validation_source(run.config(changes))
        for changes in (
            {},
            {"actor_rollout_ref.rollout.val_kwargs.temperature": 0.6},
            {"data.val_max_samples": 3},
            {"data.max_response_length": 9},
            {"+data.apply_chat_template_kwargs.enable_thinking": False},
            {"+trainer.scorer_verdict_sha256": "ab"},
        )
    ]
    (tmp_path / "other.parquet").write_bytes(b"other")
    sources.append(validation_source(run.config({"data.val_files": str(tmp_path / "other.parquet")})))
    assert len({*sources}) == 7
    record = record_with(tmp_path, {10: 0.7}, [10, 20])  # of a version that did not record it
    record.validated(20, {"dph/val_accuracy": 0.15}, None, sources[0])
    assert record.best() == 10
    record.validated(20, {"dph/val_accuracy": 0.1}, None, sources[1])
    assert record.validations == {20: 0.1} and record.best() == 20


NO_NUMBER = '{"format": "dph-run/1", "step": 1, "total_steps": "2", "validations": {}}'


@pytest.mark.parametrize("content", ["", "[]", '{"format": "dph-run/1", "validations": {}, "colour": 1}', NO_NUMBER])
def test_a_file_that_is_not_a_record_is_named(tmp_path, content):
    (tmp_path / "dph_run.json").write_text(content)
    with pytest.raises(UserError, match="dph_run.json is not of the format dph-run/1: delete it"):
        RunRecord.load(tmp_path)
