"""Which training metrics are drawn."""

from rl.evaluation.analysis.training_log import read_training_log
from rl.evaluation.report.training_figures import ON_OWN_PROMPTS, plotted_metrics, training_figures
from rl.evaluation.spec import read_spec


def test_which_metrics_are_drawn():
    logs = {
        "a": {"actor/entropy": {1: 0.4, 2: 0.3}, "dph/rows": {1: 32.0, 2: 32.0}, "actor/lr": {1: 1.0, 2: 2.0}},
        "b": {"critic/rewards/mean": {1: 0.1, 2: 0.2}, "dph/rows": {1: 32.0}, "dph/tokens": {1: 5.0, 2: 6.0}},
    }
    assert list(plotted_metrics(logs)) == ["critic/rewards/mean", "actor/entropy", "dph/tokens"]


def test_the_other_metrics_of_the_runs_follow(math_run, made_up_run):
    for name in ("grpo", "dph_js"):
        values = {"critic/rewards/mean": 0.5, "dph/divergence": 0.1, "dph/pass@8": 0.7}
        steps = {step: {m: v + step for m, v in values.items()} for step in (1, 2)}
        made = made_up_run(f"run_{name}").log(steps)
        math_run.content["methods"][name]["training_log"] = str(made.folder / "metrics")
    spec = read_spec(math_run.write())
    logs = {name: read_training_log(spec.methods[name].training_log) for name in ("grpo", "dph_js")}
    [group], others = training_figures(spec, logs)
    assert [panel.caption for panel in group.panels] == ["Mean reward"] and group.about.endswith(ON_OWN_PROMPTS)
    assert [panel.caption for panel in others] == ["Divergence term of the loss", "Pass@8 of rollouts"]
