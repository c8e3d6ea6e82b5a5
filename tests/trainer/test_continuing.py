"""What a run continues: only its own checkpoint, on its ranks; and what it records. All before Ray starts."""

import functools
import json
import logging
import math
import re
import shlex

import pandas as pd
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rl.common.errors import UserError
from rl.configuration.nesting import flat
from tests.trainer.conftest import ACTOR, ETA, SCORER, dataset_row
from verl.dph import main
from verl.dph.config.program import CONFIG_DIR
from verl.dph.pef.store import Row, Store
from verl.dph.training import resume
from verl.dph.training.run_manifest import Manifest
from verl.dph.training.run_record import RunRecord
from verl.dph.training.trainer import SyncTrainer

STEP, BY_PATH = 4, {"trainer.resume_mode": "resume_path"}


def save_checkpoint(run, step=STEP, ranks=1, **changes):
    """What a checkpoint of that run, trained with some settings changed, leaves for the next start to look at."""
    config = run.prepare({"trainer.resume_mode": "disable"} | changes)
    config.trainer.resume_mode = "auto"
    folder = run.folder / f"global_step_{step}"
    for rank in range(ranks):
        (folder / "actor").mkdir(parents=True, exist_ok=True)
        (folder / "actor" / f"model_world_size_{ranks}_rank_{rank}.pt").touch()
    Manifest(config).write(folder, step=step, resources={})
    order = resume.visit_order(Store.load(config.data.sft_pt), config)
    (folder / resume.STATE_FILE).write_text(json.dumps({"order": order.state_dict()}))
    (run.folder / "latest_checkpointed_iteration.txt").write_text(str(step))
    return folder


def test_a_run_continues_its_own_checkpoint_with_another_machine_and_other_logs(run):
    save_checkpoint(run)
    run.prepare(
        {
            f"{ACTOR}ppo_max_token_len_per_gpu": 999,
            "actor_rollout_ref.model.override_config.attn_implementation": "flash_attention_2",
            "trainer.logger": ["console"],
            "trainer.total_epochs": 99,
            "trainer.test_freq": 7,
            "data.val_files": [run.data],
            "actor_rollout_ref.rollout.gpu_memory_utilization": 0.1,
        }
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {f"{ACTOR}sft_loss_mode": "forward", f"{ACTOR}sft_loss_coeff": 0.05},
            "actor.sft_loss_coeff was 0.01 and is 0.05; actor_rollout_ref.actor.sft_loss_mode was js_low_var and is fo",
        ),
        ({"data.seed": 3}, "data.seed was None and is 3"),
        ({"actor_rollout_ref.rollout.n": 8}, "actor_rollout_ref.rollout.n was 4 and is 8"),
        ({"trainer.v1.trainer_mode": "colocate_async"}, "trainer_mode was sync and is colocate_async"),
    ],
)
def test_the_checkpoint_of_another_run_is_rejected_with_both_values(run, changes, sentence, caplog):
    folder = save_checkpoint(run)
    message = run.rejection(changes)
    assert message.startswith(f"{folder} was trained with other settings") and sentence in message
    assert "trainer.resume_with_changes=True" in message and "\n" not in message
    with caplog.at_level(logging.WARNING):
        run.prepare(changes | {"trainer.resume_with_changes": True})
    assert sentence in caplog.text


def test_every_setting_that_is_not_named_must_match(run):
    """Also those that no list of ours has ever named: verl's rewards, distillation, samplers, agent loops."""
    config = run.prepare({"trainer.resume_mode": "disable"})
    before: dict = {}
    keys = {key for key, _ in flat(OmegaConf.to_container(config, resolve=True))}
    for key in keys:
        *sections, name = key.split(".")
        functools.reduce(lambda settings, section: settings.setdefault(section, {}), sections, before)[name] = "another"
    refused = {sentence.split()[0] for sentence in resume._other_settings(config, before)}
    for key in (
        "reward.reward_manager.name",
        "distillation.enabled",
        "trainer.v1.sampler.max_off_policy_threshold",
        "trainer.balance_batch",
        "actor_rollout_ref.rollout.temperature",
        "actor_rollout_ref.rollout.multi_turn.enable",
        "actor_rollout_ref.rollout.agent.default_agent_loop",
        "actor_rollout_ref.rollout.quantization",
        "actor_rollout_ref.rollout.name",
        "actor_rollout_ref.rollout.enable_rollout_routing_replay",
        "reward.sandbox_fusion.memory_limit_mb",
        f"{ACTOR}sft_loss_coeff",
        f"{ACTOR}optim.lr",
        "algorithm.gamma",
        "critic.optim.lr",
        "data.max_response_length",
        "data.sft_batch_size",
    ):
        assert key in refused, key
    changeable = keys - refused
    for key in (
        "trainer.total_epochs",
        "trainer.save_freq",
        "trainer.logger",
        "trainer.experiment_name",
        "trainer.default_local_dir",
        "trainer.n_gpus_per_node",
        "actor_rollout_ref.rollout.tensor_model_parallel_size",
        "actor_rollout_ref.rollout.gpu_memory_utilization",
        "actor_rollout_ref.rollout.val_kwargs.n",
        "ray_kwargs.ray_init.num_cpus",
        "reward.custom_reward_function.reward_kwargs.scorer",
        f"{ACTOR}ppo_max_token_len_per_gpu",
        f"{ACTOR}fsdp_config.param_offload",
    ):
        assert key in changeable, key


def test_overlong_shaping_of_another_length_is_another_reward(run):
    buffer = "reward.reward_kwargs.overlong_buffer_cfg"
    shaped = {f"+{buffer}": {"enable": True, "len": 4, "penalty_factor": 1.0}}
    save_checkpoint(run, **shaped)
    run.prepare(shaped)
    shaped[f"+{buffer}"]["len"] = 2
    assert f"{buffer}.len was 4 and is 2" in run.rejection(shaped)
    assert f"{buffer}.enable was True and is None; {buffer}.len was 4 and is None" in run.rejection()


@pytest.mark.parametrize("loss_mode", ["kl_cov", "clip_cov"])
def test_micro_batches_stay_where_a_loss_chooses_its_tokens_in_them(run, loss_mode):
    trained_with = {f"{ACTOR}policy_loss.loss_mode": loss_mode}
    save_checkpoint(run, **trained_with)
    change = {f"{ACTOR}ppo_max_token_len_per_gpu": 999}
    assert "ppo_max_token_len_per_gpu was 16384 and is 999" in run.rejection(trained_with | change)
    run.prepare(trained_with | {"actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": 999})


@pytest.mark.parametrize(
    ("trained_with", "change", "sentence"),
    [
        ({f"{ETA}type": "cosine"}, {"trainer.total_epochs": 99}, "trainer.total_epochs was 30 and is 99"),
        ({f"{ACTOR}optim.lr_scheduler_type": "cosine"}, {"trainer.total_epochs": 99}, "trainer.total_epochs was 30"),
    ],
)
def test_what_a_schedule_depends_on_stays(run, trained_with, change, sentence):
    save_checkpoint(run, **trained_with)
    assert sentence in run.rejection(trained_with | change)
    run.prepare(trained_with)


def test_model_and_prompts_are_compared_by_content(run, tmp_path):
    folder = save_checkpoint(run)
    moved = tmp_path / "moved.parquet"
    pd.read_parquet(run.data).to_parquet(moved)
    run.prepare({"data.train_files": str(moved)})
    pd.DataFrame([dataset_row(i) for i in range(9)]).to_parquet(moved)
    assert "data.train_files was " in run.rejection({"data.train_files": str(moved)})
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["model"]["model_hash"] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert "the model was 000000000000 and is" in run.rejection()


def test_a_checkpoint_of_an_older_version_is_continued_with_a_warning(run, caplog):
    """It has no manifest, its order does not name the store, and settings have come since."""
    folder = save_checkpoint(run)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["settings"]["actor_rollout_ref"]["actor"]["sft_loss_mode"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    run.prepare()
    state = json.loads((folder / resume.STATE_FILE).read_text())
    del state["order"]["store"]
    (folder / resume.STATE_FILE).write_text(json.dumps(state))
    (folder / "manifest.json").unlink()
    with caplog.at_level(logging.WARNING):
        run.prepare()
    assert "manifest.json is missing" in caplog.text
    (folder / "manifest.json").write_text("[]")
    assert "manifest.json is no dph-manifest/1: delete it to resume without comparing" in run.rejection()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sft_loss_mode": "js", "use_kl_loss": True}, "actor.sft_js_exp_weight was 1.0 and is None"),
        ({"sft_log_ratio_max": 5}, "actor.sft_log_ratio_max was 1.0 and is 5"),
    ],
)
def test_a_checkpoint_from_before_the_estimators_settings_has_their_constants(run, changes, sentence):
    changes = {ACTOR + name: value for name, value in changes.items()}
    folder = save_checkpoint(run, **changes)
    run.prepare(changes)
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("log_ratio_max", "baseline", "js_exp_weight", "importance_max", "policy_log_ratio_max"):
        del manifest["settings"]["actor_rollout_ref"]["actor"][f"sft_{name}"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    message = run.rejection(changes)
    assert sentence in message and message.count(" was ") == 2  # of the sentence itself, and of this change


def test_a_checkpoint_trained_with_a_setting_that_is_gone_is_not_continued(run):
    folder = save_checkpoint(run)
    manifest = json.loads((folder / "manifest.json").read_text())
    for value in (0, 5):
        manifest["settings"]["data"]["sft_refresh"] = value
        (folder / "manifest.json").write_text(json.dumps(manifest))
        if value:
            assert "data.sft_refresh was 5, which this version does not have" in run.rejection()
        else:
            run.prepare()


def test_the_order_of_another_store_is_not_continued(run):
    save_checkpoint(run)
    others = [Row(row.id, row.prompt, torch.tensor([6, 1]), row.ref_log_probs) for row in run.store_rows]
    Store(run.store_origin, others).save(run.store)
    assert re.search("dph_state.json does not fit this run: the saved order has store [0-9a-f]{12}", run.rejection())


def test_a_checkpoint_of_other_ranks_is_rejected(run):
    save_checkpoint(run, ranks=2)
    assert "was written by 2 ranks and can be loaded by as many only, and this run has 1" in run.rejection()
    run.prepare({"trainer.n_gpus_per_node": 2})


@pytest.mark.parametrize(
    ("changes", "newest", "sentence"),
    [
        ({}, "5", "names step '5' as the newest checkpoint, and"),
        (BY_PATH, "4", "trainer.resume_from_path=None is no folder global_step_N"),
        (BY_PATH | {"trainer.resume_from_path": "global_step_9"}, "4", "global_step_9 is no"),
    ],
)
def test_a_checkpoint_that_is_not_there_is_named(run, changes, newest, sentence):
    save_checkpoint(run)
    (run.folder / "latest_checkpointed_iteration.txt").write_text(newest)
    assert sentence in run.rejection(changes)


def test_a_folder_below_home_is_found_by_verl_too(run, monkeypatch):
    folder = save_checkpoint(run)
    monkeypatch.setenv("HOME", str(run.folder.parent))
    config = run.prepare({"trainer.default_local_dir": f"~/{run.folder.name}"})
    assert resume.checkpoint_of(config) == folder


def test_a_store_is_never_written_from_a_checkpoint(run):
    folder = save_checkpoint(run)
    writes = {f"{ACTOR}generate_sft": True, f"{ACTOR}sft_loss_mode": "none", "data.sft_wrong_files": run.data}
    assert resume.checkpoint_of(run.prepare()) == folder
    config = run.prepare(writes)
    assert resume.checkpoint_of(config) is None
    assert config.trainer.default_local_dir == run.store.removesuffix("pt") + "run"  # its log, beside the store
    by_path = BY_PATH | {"trainer.resume_from_path": str(folder)}
    assert f"trainer.resume_from_path={folder} would load another policy" in run.rejection(writes | by_path)


# ------------------------------------------------------------------------------------------------ the run's record


def test_a_finished_run_says_so_and_starts_nothing(run, capsys, monkeypatch):
    folder = save_checkpoint(run)
    record = RunRecord(run.folder, step=STEP, total_steps=STEP, steps_per_epoch=1, seconds=4000.0)
    record.validated(STEP, {"val-core/sql/acc/mean@2": 0.5}, None)
    record.saved(STEP)
    record.save()
    monkeypatch.setattr(main.main_ppo, "run_ppo", lambda *args, **kwargs: pytest.fail("training starts"))
    changes = {"trainer.total_training_steps": STEP, "trainer.total_epochs": 9, "trainer.experiment_name": "my_run"}
    changes |= {"data.val_files": [run.data], SCORER: "http://127.0.0.1:9"}  # nobody is asked
    config = run.config(changes)
    capsys.readouterr()
    main.main(config)
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == [
        main.FINISHED,
        "my_run: step 4 of 4, 67 min of training, 0 failed rollouts.",
        "Validation (val-core/sql/acc/mean@2): last 0.5 (step 4), best 0.5 (step 4).",
    ]
    assert said[3] == f"Checkpoint: {folder}, best: {folder}"
    program, *overrides = shlex.split(said[4])[3:]
    with initialize_config_dir(str(CONFIG_DIR), version_base=None):
        evaluation = compose("evaluate", overrides).evaluate
    assert (program, said[4].split()[:2]) == ("verl.dph.evaluate", ["Next:", "python"])
    assert evaluation.models == {"base": run.model, "my_run": str(folder)}
    assert evaluation.splits == {"data": run.data}


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
        assert record.validated(step, {"val-core/a/acc/mean@1": value, "val-core/b/reward/mean@1": 0.0}, metric) is None
    record.save()
    return RunRecord.load(folder)


def best_file(folder):
    path = folder / "best_checkpointed_iteration.txt"
    return path.read_text() if path.exists() else None


def test_the_best_is_the_highest_validation_that_has_a_checkpoint(tmp_path):
    record = record_with(tmp_path, {0: 0.9, 10: 0.4, 20: 0.6, 25: 0.8, 30: 0.6}, [10, 20, 30])
    assert record.best() == 20 and best_file(tmp_path) == "20"
    assert record.metric == "mean of val-core/a/acc/mean@1, val-core/b/reward/mean@1"
    assert record.validations[20] == 0.3
    (tmp_path / "global_step_20" / "actor").rmdir()  # as max_actor_ckpt_to_keep does
    record.save()
    assert best_file(tmp_path) == "30"
    record.resumed_at(10)
    record.save()
    assert record.validations == {0: 0.45, 10: 0.2} and best_file(tmp_path) == "10"
    record.resumed_at(0)
    record.validated(10, {"val-core/a/acc/mean@1": 1.0}, None)
    record.save()
    assert best_file(tmp_path) is None  # the checkpoint of that step is one of the run that was begun anew


def test_the_metric_can_be_named(tmp_path):
    record = record_with(tmp_path, {1: 0.3, 2: 0.1}, [1, 2], metric="val-core/a/acc/mean@1")
    assert record.best() == 1
    sentence = record.validated(3, {"val-core/a/acc/mean@1": 1.0}, "val-core/c/acc")
    assert sentence.startswith("trainer.best_metric=val-core/c/acc is not among the metrics of validation (val-core/a/")
    assert "is nan in step 3" in record.validated(3, {"val-core/a/acc/mean@1": math.nan}, None)
    assert 3 not in record.validations
    record.validated(3, {"dph/keep_rate": 0.7}, "dph/keep_rate")
    assert record.validations == {3: 0.7} and record.metric == "dph/keep_rate"


def test_the_summary_says_that_the_best_checkpoint_was_deleted(tmp_path, run):
    record = record_with(tmp_path, {1: 0.3, 2: 0.1}, [2])
    record.step = record.total_steps = 2
    summary = record.summary(run.config({"trainer.max_actor_ckpt_to_keep": 1}))
    assert "Step 1 has no checkpoint (trainer.save_freq=-1, max_actor_ckpt_to_keep=1); the best that" in summary
    empty = RunRecord(tmp_path / "none", step=2, total_steps=2)
    assert "evaluate.splits={FILE:FILE.parquet}" in summary  # its validation file is that of its prompts
    assert empty.summary(run.config()).splitlines()[1:] == ["No checkpoint (trainer.save_freq=-1)."]


@pytest.mark.parametrize("content", ["", "[]", '{"format": "dph-run/1", "validations": {}, "colour": 1}'])
def test_a_file_that_is_no_record_is_named(tmp_path, content):
    (tmp_path / "dph_run.json").write_text(content)
    with pytest.raises(UserError, match="dph_run.json is no record of a run"):
        RunRecord.load(tmp_path)


def test_a_cosine_ends_where_the_run_ends_with_its_epochs(run):
    """8 prompts in batches of 4 make 2 steps per epoch; the limit of steps is beyond the last epoch's."""
    changes = {f"{ETA}type": "cosine", f"{ETA}final_ratio": 0.25, f"{ACTOR}sft_loss_coeff": 0.2}
    changes |= {"data.train_batch_size": 4, "data.sft_batch_size": 4, "data.dataloader_num_workers": 0}
    trainer = SyncTrainer(run.prepare(changes | {"trainer.total_epochs": 3, "trainer.total_training_steps": 100}))
    trainer._init_tokenizer()
    trainer._init_dataloader()
    assert trainer.record.total_steps == 6
    assert trainer.coefficient.value(1) == 0.2 and trainer.coefficient.value(6) == pytest.approx(0.05)
