"""Training logs in the format of verl's file logger."""

import json

import pytest

from rl.common.errors import UserError
from rl.evaluation.analysis.training_log import read_training_log


def test_finite_numbers_are_read_and_the_later_line_wins(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(
        '{"step":2,"data":{"a":1,"lr":0.001}}\n{"step":1,"data":{"a":3}}\n{"step":2,"data":{"a":2}}\n'
        '{"step":3,"data":{"a":NaN,"text":"no number"}}\n'
    )
    log = read_training_log(path)
    assert log == {"a": {1: 3.0, 2: 2.0}, "lr": {2: 0.001}} and list(log["a"]) == [1, 2]


def test_a_folder_holds_the_logs_of_a_run_that_was_killed_and_resumed(tmp_path):
    (tmp_path / "20260102-000000.jsonl").write_text('{"step":2,"data":{"a":2}}\n{"step":3,"data":{"a":3}}\n')
    killed = '{"step":1,"data":{"a":1}}\n{"step":2,"data":{"a":0}}\n{"step":3,"da'
    (tmp_path / "20260101-000000.jsonl").write_text(killed)
    assert read_training_log(tmp_path) == {"a": {1: 1.0, 2: 2.0, 3: 3.0}}


def test_what_an_abandoned_session_logged_is_not_the_models(tmp_path):
    """A run reached step 6, was resumed from step 3 with fewer validations, and is at step 5."""
    step, val, reward = "training/global_step", "val-core/sql/acc", "reward"
    first = [{step: number, reward: number, val: number} for number in range(1, 7)]
    second = [{val: 30}, {step: 4, reward: 40}, {step: 5, reward: 50, val: 50}]
    for name, number, entries in (("20260101-000000", 1, first), ("20260102-000000", 3, second)):
        lines = [json.dumps({"step": at, "data": data}) + "\n" for at, data in enumerate(entries, start=number)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    log = read_training_log(tmp_path)
    assert log[reward] == {1: 1, 2: 2, 3: 3, 4: 40, 5: 50} and log[val] == {1: 1, 2: 2, 3: 30, 5: 50}
    # A validation alone, of an earlier checkpoint, ends no curve.
    (tmp_path / "20260103-000000.jsonl").write_text('{"step":2,"data":{"val-core/sql/acc":7}}\n')
    log = read_training_log(tmp_path)
    assert log[reward][5] == 50 and log[val] == {1: 1, 2: 7, 3: 30, 5: 50}
    assert read_training_log(tmp_path, last_step=2)[reward] == {1: 1, 2: 2}


def test_missing_logs_and_invalid_lines(tmp_path):
    with pytest.raises(UserError, match="holds no training log"):
        read_training_log(tmp_path)
    path = tmp_path / "run.jsonl"
    for line in ("{", '{"step": "1", "data": {}}'):
        path.write_text('{"step":1,"data":{}}\n' + line + "\n")
        with pytest.raises(UserError, match=f"{path} line 2"):
            read_training_log(path)
