"""Training logs in the format of verl's file logger, and which of their metrics are drawn."""

import numpy as np
import pytest

from rl.common.errors import UserError
from rl.evaluation.analysis.training_log import read_training_log
from rl.evaluation.report.plots import running_mean
from rl.evaluation.report.training_figures import plotted_metrics, validation_metrics


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


def test_missing_logs_and_invalid_lines(tmp_path):
    with pytest.raises(UserError, match="holds no training log"):
        read_training_log(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        read_training_log(tmp_path / "none.jsonl")
    path = tmp_path / "run.jsonl"
    for line in ("{", "[]", '{"step": 1}', '{"step": "1", "data": {}}', '{"step": 1, "data": []}'):
        path.write_text('{"step":1,"data":{}}\n' + line + "\n")
        with pytest.raises(UserError, match=f"{path} line 2"):
            read_training_log(path)


def test_which_metrics_are_drawn():
    logs = {
        "a": {"actor/entropy": {1: 0.4, 2: 0.3}, "dph/rows": {1: 32.0, 2: 32.0}, "actor/lr": {1: 1.0, 2: 2.0}},
        "b": {"critic/rewards/mean": {1: 0.1, 2: 0.2}, "dph/rows": {1: 32.0}, "dph/tokens": {1: 5.0, 2: 6.0}},
    }
    plotted, constants = plotted_metrics(logs)
    assert list(plotted) == ["critic/rewards/mean", "actor/entropy", "dph/tokens"] and constants == {"dph/rows": 32.0}
    source = "val-core/lighteval/MATH/acc/"
    metrics = [*(f"{source}{name}" for name in ("mean@8", "best@8/mean", "maj@8/mean")), "val-aux/x/acc/mean@8"]
    titles = validation_metrics({"grpo": {metric: {10: 0.5} for metric in metrics}})
    assert titles == {f"{source}best@8/mean": "lighteval/MATH: best@8", f"{source}mean@8": "lighteval/MATH: mean@8"}
    np.testing.assert_allclose(running_mean(np.array([1.0, 3, 5, 7]), 2), [1, 2, 4, 6])
