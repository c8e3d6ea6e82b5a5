"""Training logs as verl's own file logger writes them."""

import numpy as np
import pytest
from verl.utils.tracking import FileLogger

from rl.common.errors import UserError
from rl.evaluation.analysis.training_log import read_training_log
from rl.evaluation.report.training_plots import plotted_metrics, running_mean


def test_reads_what_verls_file_logger_writes(tmp_path, monkeypatch):
    path = tmp_path / "run.jsonl"
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(path))
    logger = FileLogger("project", "run")
    logger.log({"critic/rewards/mean": np.float32(0.5), "actor/lr": 1e-3}, step=1)
    logger.log({"critic/rewards/mean": float("nan"), "text": "no number"}, step=2)
    logger.log({"critic/rewards/mean": 0.75}, step=3)
    logger.finish()
    assert read_training_log(path) == {"critic/rewards/mean": {1: 0.5, 3: 0.75}, "actor/lr": {1: 1e-3}}


def test_a_resumed_runs_later_line_holds(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"step":2,"data":{"a":1}}\n{"step":1,"data":{"a":3}}\n{"step":2,"data":{"a":2}}\n')
    log = read_training_log(path)
    assert list(log["a"].items()) == [(1, 3.0), (2, 2.0)]


def test_a_folder_holds_the_logs_of_a_run_that_was_killed_and_resumed(tmp_path):
    (tmp_path / "20260102-000000.jsonl").write_text('{"step":2,"data":{"a":2}}\n{"step":3,"data":{"a":3}}\n')
    killed = '{"step":1,"data":{"a":1}}\n{"step":2,"data":{"a":0}}\n{"step":3,"da'
    (tmp_path / "20260101-000000.jsonl").write_text(killed)
    assert read_training_log(tmp_path) == {"a": {1: 1.0, 2: 2.0, 3: 3.0}}


def test_a_folder_without_logs(tmp_path):
    with pytest.raises(UserError, match="holds no training log"):
        read_training_log(tmp_path)


@pytest.mark.parametrize("line", ["{", "[]", '{"step": 1}', '{"step": "1", "data": {}}', '{"step": 1, "data": []}'])
def test_a_faulty_line_is_named(tmp_path, line):
    path = tmp_path / "run.jsonl"
    path.write_text('{"step":1,"data":{}}\n' + line + "\n")
    with pytest.raises(UserError, match=f"{path} line 2"):
        read_training_log(path)


def test_missing_log(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_training_log(tmp_path / "none.jsonl")


def test_constants_need_no_panel():
    logs = {
        "a": {"actor/entropy": {1: 0.4, 2: 0.3}, "dph/rows": {1: 32.0, 2: 32.0}, "actor/lr": {1: 1.0, 2: 2.0}},
        "b": {"critic/rewards/mean": {1: 0.1, 2: 0.2}, "dph/rows": {1: 32.0}, "dph/tokens": {1: 5.0, 2: 6.0}},
    }
    names, constants = plotted_metrics(logs)
    assert names == ["critic/rewards/mean", "actor/entropy", "dph/tokens"]
    assert constants == {"dph/rows": 32.0}


def test_running_mean():
    np.testing.assert_allclose(running_mean(np.array([1.0, 3, 5, 7]), 2), [1, 2, 4, 6])
