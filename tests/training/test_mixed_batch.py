"""A fixed share of D_pef rows in every mini-batch on every rank: their order, and what ranks get from TransferQueue."""

import inspect
import re

import pytest
import ray
import torch
import transfer_queue as tq
from hypothesis import given
from hypothesis import strategies as st
from tensordict import TensorDict
from transfer_queue import KVBatchMeta, interface
from verl.trainer.distillation import losses as distillation
from verl.utils import tensordict_utils as tu
from verl.utils import transferqueue_utils
from verl.workers import engine_workers
from verl.workers.engine import utils as engine_utils
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.utils import losses, padding

from rl.configuration.compose import compose
from verl.dph.cpu.in_process import use_in_process_queue
from verl.dph.pef.batch_fields import (
    ANCHOR_NUM_TOKENS,
    OF_ANCHOR,
    PEF_NUM_TOKENS,
    PEF_REF_LOG_PROBS,
)
from verl.dph.pef.store import Row
from verl.dph.training import mixed_batch

RANKS, MINI_BATCHES, EXP_ROWS = 2, 2, 8
FLOATS = ("old_log_probs", "advantages")


def cut(order, mini_batches, ranks):
    """What verl's ranks read: [rank][mini-batch] -> rows."""
    chunk = len(order) // ranks
    size = chunk // mini_batches
    return [[order[r * chunk + k * size :][:size] for k in range(mini_batches)] for r in range(ranks)]


def test_two_ranks_two_mini_batches_by_hand():
    exp = [f"e{i}" for i in range(8)]  # rank 0: e0..e3, rank 1: e4..e7
    pef = [f"p{i}" for i in range(4)]  # mini-batch 0: p0 p1, mini-batch 1: p2 p3
    assert mixed_batch.interleave(exp, pef, mini_batches=2, ranks=2) == [
        *["e0", "e1", "p0", "e2", "e3", "p2"],
        *["e4", "e5", "p1", "e6", "e7", "p3"],
    ]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_every_rank_and_mini_batch_holds_its_equal_share(mini_batches, ranks, n_exp, n_pef):
    parts = mini_batches * ranks
    exp = [("exp", i) for i in range(n_exp * parts)]
    pef = [("pef", i) for i in range(n_pef * parts)]
    order = mixed_batch.interleave(exp, pef, mini_batches=mini_batches, ranks=ranks)
    assert sorted(order) == sorted(exp + pef)
    for rank, chunks in enumerate(cut(order, mini_batches, ranks)):
        assert [row for part in chunks for row in part if row[0] == "exp"] == exp[
            rank * n_exp * mini_batches : (rank + 1) * n_exp * mini_batches
        ]
        for part in chunks:
            assert sum(kind == "pef" for kind, _ in part) == n_pef
    for k in range(mini_batches):  # the D_pef rows of a mini-batch do not depend on the ranks
        held = sorted(row for chunks in cut(order, mini_batches, ranks) for row in chunks[k] if row[0] == "pef")
        assert held == pef[k * n_pef * ranks : (k + 1) * n_pef * ranks]


def test_dealt_rows_are_balanced_by_hand():
    lengths = [800, 700, 600, 500, 400, 300, 200, 100]  # in their order: 2,600 and 1,000 tokens
    dealt = mixed_batch.deal(lengths, lengths, ranks=2)
    assert sorted(dealt) == sorted(lengths)
    assert sum(dealt[:4]) == sum(dealt[4:]) == 1800


def test_rows_that_do_not_divide_are_rejected():
    with pytest.raises(ValueError, match="do not divide"):
        mixed_batch.interleave([1, 2, 3], [4, 5], mini_batches=2, ranks=1)


@pytest.fixture(scope="module")
def queue():
    """TransferQueue with the settings of a run on a CPU, as verl's TaskRunner starts it."""
    config = compose("dph_trainer", ["device=cpu"])
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    use_in_process_queue()
    tq.init(config.transfer_queue)
    transferqueue_utils.TQ_INITIALIZED = True
    yield
    tq.close()
    interface._TQ_STORAGE = None  # tq.close forgets actors alone
    transferqueue_utils.TQ_INITIALIZED = False
    ray.shutdown()


def pef_rows(count: int, seed: int) -> list[Row]:
    """Rows as a store's file gives them; two of them are equally long."""
    g = torch.Generator().manual_seed(seed)

    def row(i):
        r = 3 + i // 2
        return Row(
            id=i,
            prompt=torch.randint(0, 50, (2 + i,), generator=g, dtype=torch.int32),
            response=torch.randint(0, 50, (r,), generator=g, dtype=torch.int32),
            ref_log_probs=-torch.rand(r, generator=g),
        )

    return [row(i) for i in range(count)]


@pytest.fixture
def batch(queue):
    """D_exp rows with everything that verl's trainer has put into the queue when the update begins."""
    lengths = [(3 + i, 2 + i % 3) for i in range(EXP_ROWS)]

    def column(name):
        sizes = {"input_ids": [p + r for p, r in lengths], "prompts": [p for p, _ in lengths]}
        sizes["position_ids"] = sizes["input_ids"]
        dtype = torch.float32 if name in FLOATS else torch.int64
        parts = [torch.ones(size, dtype=dtype) for size in sizes.get(name, [r for _, r in lengths])]
        return torch.nested.as_nested_tensor(parts, layout=torch.jagged)

    keys = [f"exp_{i}" for i in range(EXP_ROWS)]
    tags = [{"seq_len": sum(length)} for length in lengths]
    columns = TensorDict({name: column(name) for name in mixed_batch.FIELDS}, batch_size=EXP_ROWS)
    tq.kv_batch_put(keys=keys, tags=tags, partition_id="train", fields=columns)
    yield KVBatchMeta(
        keys=keys, tags=tags, partition_id="train", fields=list(mixed_batch.FIELDS), extra_info={"t": 1.0}
    )
    tq.kv_clear(keys=keys, partition_id="train")


def test_an_update_without_d_pef_reads_no_field_of_the_data():
    there = [*mixed_batch.FIELDS, "ref_log_prob", "routed_experts", "multi_modal_inputs", "raw_prompt", "extra_info"]
    text = [*mixed_batch.FIELDS, "ref_log_prob", "routed_experts"]
    found = mixed_batch.fields_of_update(there, *mixed_batch.WITHOUT_PEF)
    assert found == text and mixed_batch.fields_of_update(there, "multi_modal_inputs") == [
        *mixed_batch.FIELDS,
        "ref_log_prob",
        "multi_modal_inputs",
    ]


def test_verls_update_reads_no_other_optional_field():
    """A missing field that it reads with [] is an error; one that it reads with get would be missing without a word."""
    modules = (transformer_impl, engine_utils, losses, padding, engine_workers, distillation)
    source = "".join(map(inspect.getsource, modules))
    read = set(re.findall(r'(?:batch|data|td)\.get\("(\w+)"', source))
    # Those of padded batches and of image generators are in no batch of ours.
    read -= {"attention_mask", "negative_prompt_embeds"}
    assert read == {"rollout_is_weights", *mixed_batch.WITHOUT_PEF, *mixed_batch.WITH_MEDIA}


def row_of(rows: list[Row], k: int, rank: int) -> Row:
    """The D_pef row of a rank in mini-batch k; lengths rise, and the first rank is dealt the longest."""
    return rows[k * RANKS + RANKS - 1 - rank]


def mini_batches_of_ranks(mixed: KVBatchMeta) -> dict[tuple[int, int], TensorDict]:
    """(rank, mini-batch) -> what the actor's train_mini_batch iterates over."""
    found = {}
    for rank, meta in enumerate(mixed.chunk(RANKS)):
        data = transferqueue_utils._meta_to_realdata(meta)
        parts = tu.make_iterator(data, len(data) // MINI_BATCHES, epochs=1, dataloader_kwargs={"shuffle": False})
        found |= {(rank, k): part for k, part in enumerate(parts)}
    return found


@pytest.mark.parametrize("step", [1, 2])  # the second one on what the first one left in the queue
def test_ranks_get_their_own_rows_of_the_store(batch, step):
    rows = pef_rows(4, seed=step)
    with mixed_batch.mixed(batch, [(rows[:2], []), (rows[2:], [])], ranks=RANKS) as mixed:
        found = mini_batches_of_ranks(mixed)
        assert OF_ANCHOR not in mixed.fields
    for (rank, k), part in found.items():
        row = row_of(rows, k, rank)
        exp_rows = EXP_ROWS // RANKS // MINI_BATCHES
        log_probs = part[PEF_REF_LOG_PROBS]
        assert log_probs.layout == torch.jagged and log_probs.dtype == torch.float32
        assert log_probs.offsets().diff().tolist() == [0] * exp_rows + [len(row.response)]
        assert torch.equal(log_probs.values(), row.ref_log_probs)
        tokens_of_mini_batch = sum(len(row.response) for row in rows[2 * k : 2 * k + 2])
        assert part[PEF_NUM_TOKENS].tolist() == [tokens_of_mini_batch] * (exp_rows + 1)

        last = {name: part[name][-1] for name in mixed_batch.FIELDS}  # the row itself, in verl's dtypes
        assert all(last[name].dtype == (torch.float32 if name in FLOATS else torch.int64) for name in last)
        assert torch.equal(last["input_ids"], torch.cat([row.prompt, row.response]).long())
        assert torch.equal(last["position_ids"], torch.arange(len(row.prompt) + len(row.response)))
        assert torch.equal(last["prompts"], row.prompt.long()) and torch.equal(last["responses"], row.response.long())
        assert torch.equal(last["old_log_probs"], row.ref_log_probs)
        for name in ("response_mask", "loss_mask", "advantages"):
            assert len(last[name]) == len(row.response) and not last[name].any()

        of_exp_only = tu.index_select_tensor_dict(part, [0, 1])  # a micro-batch without D_pef rows
        assert of_exp_only[PEF_REF_LOG_PROBS].values().shape == (0,)


def test_every_rank_and_mini_batch_has_its_share_of_the_anchor_too(batch):
    rows = pef_rows(12, seed=3)
    pef, anchor = [rows[:2], rows[2:4]], [rows[4:8], rows[8:]]
    with mixed_batch.mixed(batch, list(zip(pef, anchor, strict=True)), ranks=RANKS) as mixed:
        found = mini_batches_of_ranks(mixed)
    for (_, k), part in found.items():
        assert part[OF_ANCHOR].tolist() == [0] * (EXP_ROWS // RANKS // MINI_BATCHES) + [0, 1, 1]
        for field, of_set in ((PEF_NUM_TOKENS, pef[k]), (ANCHOR_NUM_TOKENS, anchor[k])):
            assert set(part[field].tolist()) == {sum(len(row.response) for row in of_set)}
        lengths = part[PEF_REF_LOG_PROBS].offsets().diff().tolist()[-3:]
        assert lengths[0] in [len(row.response) for row in pef[k]]
        assert all(length in [len(row.response) for row in anchor[k]] for length in lengths[1:])


def test_d_pef_rows_are_gone_after_the_step_also_when_it_fails(batch):
    rows = pef_rows(4, seed=4)
    step = mixed_batch.mixed(batch, [(rows[:2], []), (rows[2:], [])], ranks=RANKS)
    with pytest.raises(ZeroDivisionError), step:
        assert len(tq.kv_list(partition_id="train")["train"]) == EXP_ROWS + 4
        raise ZeroDivisionError
    assert sorted(tq.kv_list(partition_id="train")["train"]) == sorted(batch.keys)
