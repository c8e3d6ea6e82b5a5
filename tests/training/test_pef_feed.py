"""The feed of D_pef: rows and eta of a step, and its state, which the check and the trainer load alike."""

import json

import pytest

from tests.training.conftest import ACTOR, ETA
from tests.training.test_resume import save_checkpoint
from verl.dph.training import checkpoint_parts
from verl.dph.training.pef_feed import PefFeed
from verl.dph.training.trainer import DPHTrainer


def ids(rows, of_set=0):
    return [[row.id for row in of_mini_batch[of_set]] for of_mini_batch in rows]


def states(feed):
    return {name: part.state_dict() for name, part in checkpoint_parts.parts_of(feed).items()}


def test_a_step_gets_its_rows_per_mini_batch_and_a_resumed_run_the_next_ones(run, tmp_path):
    config = run.prepare()
    feed = PefFeed.of(config)
    assert feed.take_metrics() == {}  # no update yet, as in the steps of critic_warmup
    first = ids(feed.take(2))
    assert [len(rows) for rows in first] == [4, 4] and sorted(sum(first, [])) == list(range(8))
    assert feed.take_metrics() == {"dph/rows": 8, "dph/epoch": 1.0}
    feed.take(1)
    checkpoint_parts.save(tmp_path, checkpoint_parts.parts_of(feed))
    resumed = PefFeed.of(config)
    checkpoint_parts.load(tmp_path, checkpoint_parts.parts_of(resumed))
    assert states(resumed) == states(feed) != states(PefFeed.of(config))
    assert ids(resumed.take(2)) == ids(feed.take(2))
    assert resumed.take_metrics() == {"dph/rows": 8, "dph/epoch": 2.5}


def test_an_anchor_has_rows_and_an_order_of_its_own(run, tmp_path):
    """The same file serves as both, in orders of the same seed; the anchor takes twice as many rows."""
    run.prepare()
    changes = {
        "data.sft_batch_size": 4,
        "data.sft_anchor_pt": run.config().data.sft_pt,
        "data.sft_anchor_batch_size": 8,
    }
    config = run.config(changes)
    feed = PefFeed.of(config)
    rows = feed.take(1)
    assert [len(of_set) for of_set in rows[0]] == [2, 4] and ids(rows, 1)[0][:2] == ids(rows)[0]
    checkpoint_parts.save(tmp_path, checkpoint_parts.parts_of(feed))
    resumed = PefFeed.of(config)
    checkpoint_parts.load(tmp_path, checkpoint_parts.parts_of(resumed))
    assert states(resumed).keys() == {"order", "anchor_order"}
    following = feed.take(2)
    found = resumed.take(2)
    assert [ids(found, number) for number in (0, 1)] == [ids(following, number) for number in (0, 1)]
    assert states(resumed) == states(feed)
    assert feed.take_metrics() == {"dph/rows": 6, "dph/epoch": 0.75}


def test_a_divergence_on_d_exp_alone_gets_eta_and_no_rows(run):
    on_exp = {f"{ACTOR}sft_loss_mode": "reverse_kl", "data.sft_pt": None}
    feed = PefFeed.of(run.config(on_exp))
    assert feed.take(2) == [([], [])] * 2 and feed.take_metrics() == {}
    assert states(feed) == {}


def test_every_part_is_looked_at_before_ray_starts(run):
    folder = save_checkpoint(run)
    state = json.loads((folder / "dph_state.json").read_text())
    del state["order"]
    (folder / "dph_state.json").write_text(json.dumps(state))
    assert "dph_state.json has no 'order': another version" in run.rejection()
    (folder / "dph_state.json").unlink()
    assert "dph_state.json is missing: the checkpoint was written with sft_loss_mode=none" in run.rejection()


def test_a_cosine_ends_where_the_run_ends_with_its_epochs(run):
    """8 prompts in batches of 4 make 2 steps per epoch; the limit of steps is beyond the last epoch's."""
    changes = {f"{ETA}type": "cosine", f"{ETA}final_ratio": 0.25, f"{ACTOR}sft_loss_coeff": 0.2}
    changes |= {"data.train_batch_size": 4, "data.sft_batch_size": 4, "data.dataloader_num_workers": 0}
    trainer = DPHTrainer(run.prepare(changes | {"trainer.total_epochs": 3, "trainer.total_training_steps": 100}))
    trainer._init_tokenizer()
    trainer._init_dataloader()
    # verl would save no checkpoint and validate nothing at the end, and its learning rate would decay over 100 steps.
    assert (trainer.record.total_steps, trainer.total_training_steps) == (6, 6)
    assert trainer.config.actor_rollout_ref.actor.optim.total_training_steps == 6
    assert trainer.feed.eta.value(1) == 0.2 and trainer.feed.eta.value(6) == pytest.approx(0.05)
