"""A fixed share of D_pef rows in every mini-batch on every rank, and the order in which D_pef is visited."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl.dph.pef.visit_order import RehearsalOrder
from verl.dph.training.mixed_batch import deal, interleave


def cut(order, mini_batches, ranks):
    """What verl's ranks read: [rank][mini-batch] -> rows."""
    chunk = len(order) // ranks
    size = chunk // mini_batches
    return [[order[r * chunk + k * size :][:size] for k in range(mini_batches)] for r in range(ranks)]


def test_two_ranks_two_mini_batches_by_hand():
    exp = [f"e{i}" for i in range(8)]  # rank 0: e0..e3, rank 1: e4..e7
    pef = [f"p{i}" for i in range(4)]  # mini-batch 0: p0 p1, mini-batch 1: p2 p3
    assert interleave(exp, pef, mini_batches=2, ranks=2) == [
        *["e0", "e1", "p0", "e2", "e3", "p2"],
        *["e4", "e5", "p1", "e6", "e7", "p3"],
    ]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_every_rank_and_mini_batch_holds_its_equal_share(mini_batches, ranks, n_exp, n_pef):
    parts = mini_batches * ranks
    exp = [("exp", i) for i in range(n_exp * parts)]
    pef = [("pef", i) for i in range(n_pef * parts)]
    order = interleave(exp, pef, mini_batches=mini_batches, ranks=ranks)
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
    dealt = deal(lengths, lengths, ranks=2)
    assert sorted(dealt) == sorted(lengths)
    assert sum(dealt[:4]) == sum(dealt[4:]) == 1800


@given(st.integers(1, 8), st.data())
def test_every_rank_is_dealt_as_many_rows_of_about_equal_length(ranks, data):
    lengths = data.draw(st.lists(st.integers(2, 20_000), min_size=ranks, max_size=8 * ranks))
    lengths = lengths[: len(lengths) // ranks * ranks]
    rows = list(enumerate(lengths))
    dealt = deal(rows, lengths, ranks)
    assert sorted(dealt) == rows and dealt == deal(rows, lengths, ranks)
    size = len(rows) // ranks
    work = [sum(24576 * n + n * n for _, n in dealt[r * size :][:size]) for r in range(ranks)]
    assert max(work) - min(work) <= max(24576 * n + n * n for n in lengths)


def test_rows_that_do_not_divide_are_rejected():
    with pytest.raises(ValueError, match="do not divide"):
        interleave([1, 2, 3], [4, 5], mini_batches=2, ranks=1)


@given(st.integers(1, 30), st.integers(0, 5), st.lists(st.integers(1, 17), min_size=1, max_size=12))
def test_no_row_comes_twice_before_all_came_once(num_rows, seed, counts):
    order = RehearsalOrder(range(num_rows), seed)
    taken = [i for count in counts for i in order.take(count)]
    assert taken == RehearsalOrder(range(num_rows), seed).take(len(taken))  # however many are asked for at a time
    for start in range(0, len(taken), num_rows):
        epoch = taken[start : start + num_rows]
        assert len(set(epoch)) == len(epoch)
        if len(epoch) == num_rows:
            assert sorted(epoch) == list(range(num_rows))


def test_every_prompt_counts_alike_and_its_responses_take_turns():
    """Eight, one and three responses: a prompt is visited once per epoch, with another response each time."""
    ids = [7] * 8 + ["a"] + [9] * 3
    order = RehearsalOrder(ids, seed=2)
    epochs = [order.take(3) for _ in range(24)]
    assert all({ids[row] for row in rows} == {7, "a", 9} for rows in epochs) and order.epochs == 24
    visits = Counter(row for rows in epochs for row in rows)
    assert visits == Counter(dict.fromkeys(range(8), 3) | {8: 24} | dict.fromkeys(range(9, 12), 8))
    of_7 = [row for rows in epochs for row in rows if ids[row] == 7]
    assert sorted(of_7[:8]) == list(range(8)) and of_7[8:16] == of_7[:8]
    saved, resumed = json.loads(json.dumps(order.state_dict())), RehearsalOrder(ids, seed=2)
    resumed.load_state_dict(saved)
    assert resumed.take(10) == order.take(10)
    firsts = {RehearsalOrder(ids, seed).take(3)[0] for seed in range(40)}
    assert len(firsts & set(range(8))) > 4  # seeds begin with different responses


def test_one_response_per_prompt_is_visited_as_before_there_were_several():
    """The order that checkpoints of earlier versions continue, from that version."""
    assert RehearsalOrder(range(10), seed=3).take(20) == [
        *[4, 5, 0, 1, 2, 8, 3, 6, 9, 7],
        *[1, 9, 5, 6, 4, 3, 8, 0, 2, 7],
    ]


def test_a_state_of_another_store_is_rejected():
    state = RehearsalOrder(range(10), seed=3).state_dict()
    with pytest.raises(ValueError, match="num_rows 10, this run has 11"):
        RehearsalOrder(range(11), seed=3).load_state_dict(state)
