"""Which training metrics are drawn."""

from rl.evaluation.report.training_figures import plotted_metrics, validation_metrics


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
