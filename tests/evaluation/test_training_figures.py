"""Which training metrics are drawn, and which runs share a plot."""

import json

from rl.data.training_run import MANIFEST_FORMAT
from rl.evaluation.analysis.training_log import read_training_log
from rl.evaluation.report.training_figures import (
    ON_OWN_PROMPTS,
    plotted_metrics,
    prompt_sets,
    training_figures,
    validation_metrics,
)
from rl.evaluation.spec import read_spec


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


def test_runs_on_different_prompts_are_different_sets():
    everything, hard = {"a1": "train.parquet"}, {"b2": "train_wrong.parquet"}
    assert prompt_sets({"grpo": everything, "dph_js": dict(everything)}) == {"": ["grpo", "dph_js"]}
    assert prompt_sets({"grpo": everything, "dph_js": hard, "grpo_cap": everything}) == {
        ", on train.parquet": ["grpo", "grpo_cap"],
        ", on train_wrong.parquet": ["dph_js"],
    }
    # Equal names of different files; a run without a record.
    assert list(prompt_sets({"a": everything, "b": {"c3": "train.parquet"}})) == [
        ", on train.parquet of a",
        ", on train.parquet of b",
    ]
    assert prompt_sets({"grpo": everything, "dph_js": hard, "old": None}) == {"": ["grpo", "dph_js", "old"]}


def test_values_of_rollouts_on_different_prompts_are_in_separate_plots(math_run, made_up_run):
    files = {"grpo": {"/t/train.parquet": "a1"}, "dph_js": {"/t/train_wrong.parquet": "b2"}}
    values = {"critic/rewards/mean": 0.5, "dph/divergence": 0.1, "dph/pass@8": 0.7}
    constant = {"dph/coefficient": 0.5, "dph/outcome/gold_error": 0}
    for name in files:
        steps = {step: {m: v + step for m, v in values.items()} | constant for step in (1, 2)}
        made = made_up_run(f"run_{name}").log(steps)
        math_run.content["methods"][name]["training_log"] = str(made.folder / "metrics")

    def captions() -> tuple[list[str], str]:
        spec = read_spec(math_run.write())
        logs = {name: read_training_log(spec.methods[name].training_log) for name in files}
        [group], others = training_figures(spec, logs)
        return [panel.caption for panel in (*group.panels, *others)], group.about

    found, about = captions()
    assert found == ["Mean reward", "Divergence on D_pef", "Pass@8 of rollouts"] and about.endswith(ON_OWN_PROMPTS)
    assert "Constant throughout: eta = 0.5, Share of the outcome gold_error = 0." in about
    for name, of in files.items():
        folder = math_run.folder / f"run_{name}" / "global_step_2"
        folder.mkdir()
        content = {"format": MANIFEST_FORMAT, "model": {}, "data": {"train_files": of}, "settings": {}}
        (folder / "manifest.json").write_text(json.dumps(content))
    found, about = captions()
    of_rollouts = [
        f"{m}, on {of}.parquet" for m in ("Mean reward", "Pass@8 of rollouts") for of in ("train", "train_wrong")
    ]
    assert found == [*of_rollouts[:2], "Divergence on D_pef", *of_rollouts[2:]]
    assert about.endswith("have separate plots of the values of their rollouts.")
