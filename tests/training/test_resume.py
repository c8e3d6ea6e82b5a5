"""What a run continues: only its own checkpoint, on its ranks; and what it records. All before Ray starts."""

import functools
import json
import logging
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf

from rl.configuration.variables import flat
from tests.training.conftest import ACTOR, dataset_row
from verl.dph.pef.store import Row, Store
from verl.dph.training import checkpoint_parts, resume
from verl.dph.training.pef_feed import PefFeed
from verl.dph.training.run_manifest import manifest_of, write_manifest

STEP, BY_PATH = 4, {"trainer.resume_mode": "resume_path"}


def save_checkpoint(run, step=STEP, ranks=1, **changes):
    """What a checkpoint of that run, trained with some settings changed, leaves for the next start to look at."""
    shutil.rmtree(run.folder, ignore_errors=True)
    config = run.prepare({"trainer.resume_mode": "disable"} | changes)
    config.trainer.resume_mode = "auto"
    folder = run.folder / f"global_step_{step}"
    for rank in range(ranks):
        (folder / "actor").mkdir(parents=True, exist_ok=True)
        for part in ("model", "optim", "extra_state"):
            (folder / "actor" / f"{part}_world_size_{ranks}_rank_{rank}.pt").touch()
    (folder / "data.pt").touch()
    write_manifest(manifest_of(config), folder, step=step, resources={})
    checkpoint_parts.save(folder, checkpoint_parts.parts_of(PefFeed.of(config)))
    (run.folder / "latest_checkpointed_iteration.txt").write_text(str(step))
    return folder


def test_the_checkpoint_of_another_run_is_rejected_with_both_values(run, caplog):
    changes = {f"{ACTOR}sft_loss_mode": "forward", f"{ACTOR}sft_loss_coeff": 0.05}
    sentence = f"actor.sft_loss_coeff was 0.01 and is 0.05; {ACTOR}sft_loss_mode was js_low_var and is forward"
    folder = save_checkpoint(run)
    message = run.rejection(changes)
    assert message.startswith(f"{folder} was trained with other settings") and sentence in message
    assert "trainer.resume_with_changes=True" in message and "\n" not in message
    with caplog.at_level(logging.WARNING):
        run.prepare(changes | {"trainer.resume_with_changes": True})
    assert sentence in caplog.text


def test_every_setting_that_is_not_named_must_match(run):
    """Even settings that no list of ours has named: verl's rewards, distillation, samplers, agent loops."""
    config = run.prepare({"trainer.resume_mode": "disable"})
    before: dict = {}
    keys = {key for key, _ in flat(OmegaConf.to_container(config, resolve=True))}
    for key in keys:
        *sections, name = key.split(".")
        functools.reduce(lambda settings, section: settings.setdefault(section, {}), sections, before)[name] = "another"
    refused = {sentence.split()[0] for sentence in resume._other_settings(config, before)}
    assert refused >= {
        "reward.reward_manager.name",
        "actor_rollout_ref.rollout.temperature",
        "actor_rollout_ref.rollout.agent.default_agent_loop",
        "actor_rollout_ref.rollout.name",
        f"{ACTOR}sft_loss_coeff",
        f"{ACTOR}optim.lr",
        "algorithm.gamma",
        "data.max_response_length",
        "data.sft_batch_size",
        "data.dataloader_num_workers",  # torchdata would end with a traceback
        "actor_rollout_ref.rollout.calculate_log_probs",  # without them importance correction does nothing
    }
    assert keys - refused >= {
        "trainer.total_epochs",
        "trainer.save_freq",
        "trainer.logger",
        "trainer.default_local_dir",
        "trainer.n_gpus_per_node",
        "actor_rollout_ref.rollout.gpu_memory_utilization",
        "actor_rollout_ref.rollout.val_kwargs.n",
        "reward.custom_reward_function.reward_kwargs.scorer",
        f"{ACTOR}ppo_max_token_len_per_gpu",
        f"{ACTOR}fsdp_config.param_offload",
    }


def test_a_key_that_only_one_run_has_is_a_change(run):
    key = f"{ACTOR}optim.override_optimizer_config.amsgrad"
    save_checkpoint(run, **{f"+{key}": True})
    run.prepare({f"+{key}": True})
    assert f"{key} was True and is None" in run.rejection()
    save_checkpoint(run)
    assert f"{key} was None and is True" in run.rejection({f"+{key}": True})


@pytest.mark.parametrize(("loss", "is_rejected"), [("vanilla", False), ("kl_cov", True), ("clip_cov", True)])
def test_micro_batches_stay_where_the_loss_chooses_tokens_within_one(run, loss, is_rejected):
    changes = {f"{ACTOR}policy_loss.loss_mode": loss}
    save_checkpoint(run, **changes)
    changes |= {f"{ACTOR}ppo_max_token_len_per_gpu": 5000}
    if is_rejected:
        assert "ppo_max_token_len_per_gpu was " in run.rejection(changes)
    else:
        run.prepare(changes)


def test_the_order_of_the_training_files_stays(run):
    """The checkpoint has the place in the epoch by the rows' numbers over all files."""
    second = str(Path(run.data).with_name("second.parquet"))
    pd.DataFrame(dataset_row(100 + i) for i in range(8)).to_parquet(second)
    save_checkpoint(run, **{"data.train_files": [run.data, second]})
    run.prepare({"data.train_files": [run.data, second]})
    sentence = f"data.train_files was {run.data}, {second} and is {second}, {run.data}, with other contents or in an"
    assert sentence in run.rejection({"data.train_files": [second, run.data]})


def test_model_and_prompts_are_compared_by_content(run, tmp_path):
    folder = save_checkpoint(run)
    moved = tmp_path / "moved.parquet"
    pd.read_parquet(run.data).to_parquet(moved)
    run.prepare({"data.train_files": str(moved)})
    pd.DataFrame([dataset_row(i) for i in range(9)]).to_parquet(moved)
    assert "data.train_files was " in run.rejection({"data.train_files": str(moved)})
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("model", "tokenizer", "config"):
        of_model = manifest["model"] | {f"{name}_hash": "0" * 64}
        (folder / "manifest.json").write_text(json.dumps(manifest | {"model": of_model}))
        assert f"the {name} was 000000000000 and is" in run.rejection()
    del manifest["model"]["config_hash"]  # of an earlier version
    (folder / "manifest.json").write_text(json.dumps(manifest))
    run.prepare()


def test_a_checkpoint_whose_settings_are_not_known_is_continued_with_a_warning(run, caplog):
    """One that plain verl wrote, for example."""
    manifest = save_checkpoint(run) / "manifest.json"
    manifest.unlink()
    with caplog.at_level(logging.WARNING):
        run.prepare()
    assert "manifest.json is missing" in caplog.text
    manifest.write_text("[]")
    assert "manifest.json is not of the format dph-manifest/1: delete it to resume without comparing" in run.rejection()


def test_the_order_of_another_store_is_not_continued(run):
    save_checkpoint(run)
    others = [Row(row.id, row.prompt, torch.tensor([6, 1]), row.ref_log_probs) for row in run.store_rows]
    Store(run.store_origin, others).save(run.store)
    assert re.search("dph_state.json does not fit this run: the saved order has store [0-9a-f]{12}", run.rejection())


def test_an_anchor_stays_or_goes_by_name(run):
    """Paths may change, and without the anchor the other rows' order would be continued all the same."""
    anchored = {"data.sft_anchor_pt": run.store}
    save_checkpoint(run, **anchored)
    moved = str(shutil.copy(run.store, run.folder / "moved.pt"))
    run.prepare({"data.sft_anchor_pt": moved})
    assert f"data.sft_anchor_pt was {run.store} and is None" in run.rejection()
    save_checkpoint(run)
    assert f"data.sft_anchor_pt was None and is {run.store}" in run.rejection(anchored)


def test_rewards_of_other_rules_are_not_continued(run, caplog):
    folder = save_checkpoint(run)
    run.prepare()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert re.fullmatch("[0-9a-f]{64}", manifest["settings"]["trainer"]["scorer_verdict_sha256"])
    for verdict, rejected in (("ab" * 32, True), ("", False)):  # "": no server said it
        manifest["settings"]["trainer"]["scorer_verdict_sha256"] = verdict
        (folder / "manifest.json").write_text(json.dumps(manifest))
        if rejected:
            assert "the scorer's rules (verdict_sha256) were abababababab and are " in run.rejection()
        run.prepare({"trainer.resume_with_changes": rejected})
    assert "continues with changes: the scorer's rules" in caplog.text


def test_a_store_that_other_rules_judged_is_named(run, caplog):
    path = run.config().data.sft_pt
    store = Store.load(path)
    for scorer, warned in (("", False), ("ab" * 32, True)):
        Store(store.meta | {"scorer": scorer}, store.rows).save(path)
        with caplog.at_level(logging.WARNING):
            run.prepare()
        words = f"The responses of {path} were judged by a scorer with other rules (verdict_sha256 abababababab, now "
        assert (words in caplog.text) == warned


def test_a_run_does_not_start_anew_among_the_checkpoints_of_another(run):
    folder = save_checkpoint(run)
    message = run.rejection({"trainer.resume_mode": "disable"})
    assert message.startswith(f"This run would start anew in {run.folder}, which has {folder.name} of another run")
    # A run that ended while it wrote its first checkpoint begins again.
    (run.folder / "latest_checkpointed_iteration.txt").unlink()
    run.prepare()


def test_a_run_does_not_go_on_from_a_checkpoint_without_weights_or_moments(run):
    """verl would go on with the initial weights, or with new moments and learning rate, from the next step."""
    folder = save_checkpoint(run)
    loads = {f"{ACTOR}checkpoint.load_contents": ["model", "optimizer"]}
    assert "actor.checkpoint.load_contents lacks extra, which would begin anew" in run.rejection(loads)
    run.prepare({f"{ACTOR}checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"]})
    run.prepare(loads | {"trainer.resume_with_changes": True})
    validates = {"trainer.val_only": True, "data.val_files": [run.data]}
    run.prepare(loads | validates)
    assert "lacks model, which would begin anew" in run.rejection(
        validates | {f"{ACTOR}checkpoint.load_contents": ["optimizer"]}
    )
    (folder / "data.pt").unlink()  # verl writes it last, and begins the data anew without it
    assert "it has no data.pt, so that the prompts would begin anew" in run.rejection({})


def test_a_run_from_another_runs_checkpoint_has_a_folder_of_its_own(run):
    folder = save_checkpoint(run)
    other = run.folder.with_name("other")
    shutil.copytree(run.folder, other)
    from_other = BY_PATH | {"trainer.resume_from_path": str(other / folder.name)}
    message = run.rejection(from_other)
    assert message.startswith(
        f"This run would go on from {other / folder.name} in {run.folder}, which has {folder.name}"
    )
    assert message.endswith("To go on from global_step_4, set trainer.resume_mode=auto.")
    run.prepare(BY_PATH | {"trainer.resume_from_path": str(folder)})
    shutil.rmtree(folder)
    run.prepare(from_other)


def test_a_checkpoint_of_other_ranks_is_rejected(run):
    save_checkpoint(run, ranks=2)
    assert "was written by 2 ranks and only as many can load it, but this run has 1" in run.rejection()
    run.prepare({"trainer.n_gpus_per_node": 2})


@pytest.mark.parametrize(
    ("changes", "newest", "sentence"),
    [
        ({}, "5", "names global_step_5 as the newest checkpoint, and"),
        (BY_PATH, "4", "trainer.resume_from_path=None is not a folder global_step_N"),
        (BY_PATH | {"trainer.resume_from_path": "global_step_9"}, "4", "global_step_9 is not a folder"),
    ],
)
def test_a_checkpoint_that_is_not_there_is_named(run, changes, newest, sentence):
    save_checkpoint(run)
    (run.folder / "latest_checkpointed_iteration.txt").write_text(newest)
    assert sentence in run.rejection(changes)


def test_a_store_is_never_written_from_a_checkpoint(run):
    folder = save_checkpoint(run)
    writes = {f"{ACTOR}generate_sft": True, f"{ACTOR}sft_loss_mode": "none", "data.sft_wrong_files": run.data}
    assert resume.checkpoint_of(run.prepare()) == folder
    config = run.prepare(writes)
    assert resume.checkpoint_of(config) is None
    assert config.trainer.default_local_dir == run.store.removesuffix("pt") + "run"  # its log, beside the store
    by_path = BY_PATH | {"trainer.resume_from_path": str(folder)}
    assert f"trainer.resume_from_path={folder} would load another policy" in run.rejection(writes | by_path)
