"""The order in which D_pef is visited."""

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from verl.dph.pef.visit_order import RehearsalOrder


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
