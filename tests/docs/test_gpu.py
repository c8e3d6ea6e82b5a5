"""What docs/explanation/measurements.md says of the GPU is in the reports of benchmarks/gpu that docs/study/gpu has."""

import json
import statistics

import numpy as np
import pytest

from rl.metrics.pass_at_k import pass_at_k
from tests.docs.test_study import FOLDER
from tests.programs import REPOSITORY

PAGE = (REPOSITORY / "docs" / "explanation" / "measurements.md").read_text()
SECTION = PAGE.partition("\n## On a GPU\n")[2].partition("\n## ")[0]
ONE_PASS = PAGE.partition("\n## One pass over the logits\n")[2].partition("\n## ")[0]


def report(name: str):
    return json.loads((FOLDER / "gpu" / name).read_text())


def test_the_checks_passed_with_these_differences():
    checks = report("check_cuda.json")
    assert checks["failed"] == [] and checks["device"] == "cuda"
    found = {name: check.get("largest_relative_difference") for name, check in checks["checks"].items()}
    for name in ("divergences", "between_distributions"):
        assert f"{found[name]:.1e}".replace("e-0", "e-") in SECTION, name
    assert f"{checks['checks']['one_pass_log_probs']['overwrite_True']['values']:.1e}".replace("e-0", "e-") in SECTION
    cost = checks["checks"]["micro_batch"]
    for name in ("ours_labels", "ours_top_k_overwrite_True", "verl_with_flash_attn"):
        assert cost[name]["tokens"] == 20_096 and f"{cost[name]['s']:.3f} s" in ONE_PASS, name
        assert round(cost[name]["GB"], 1) in (5.1, 5.2)
    assert cost["verl_without_flash_attn"]["tokens"] * 4 == 20_096
    assert f"{cost['verl_without_flash_attn']['s']:.1f} s for a quarter" in ONE_PASS


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_updates_differ_from_the_cpus_by_so_much(precision):
    expected, found = report("update_cpu.json"), report(f"update_{precision}.json")
    worst = max(
        abs(value - found[variant][step][name]) / (1e-6 + abs(value))
        for variant, steps in expected.items()
        for step, metrics in enumerate(steps)
        for name, value in metrics.items()
    )
    assert f"{worst:.1e}".replace("e-0", "e-") in SECTION


def test_the_update_of_a_billion_parameters():
    measured = report("actor_update_1b.json")
    assert measured["device"] == "NVIDIA H200" and measured["settings"]["rounds"] == 4
    seconds = {name: statistics.median(of["seconds"]) for name, of in measured["variants"].items()}
    lines = [line.split(" | ") for line in SECTION.splitlines() if line.startswith("| ")][1:]
    for (_, ratio, peak), variant in zip(lines, ("plain", "sampled", "topk", "reference"), strict=True):
        found = seconds[variant] / seconds["plain"]
        assert ratio == (f"1 ({seconds['plain']:.2f} s)" if variant == "plain" else f"{found:.2f}"), variant
        assert peak.startswith(f"{measured['variants'][variant]['peak_bytes'] / 1e9:.1f} GB"), variant


def steps_of(name: str) -> list[dict[str, float]]:
    return [json.loads(line)["data"] for line in (FOLDER / "gpu" / name).read_text().splitlines()]


@pytest.mark.parametrize(("run", "count"), [("grpo", 20), ("dph_js", 40)])
def test_the_steps_of_the_pretrained_model(run, count):
    steps = steps_of(f"pretrained_{run}.jsonl")
    [said] = [" ".join(item.split()) for item in SECTION.split("\n- ") if f"pretrained_{run}.jsonl" in item]
    assert len(steps) == count and f"for {count} steps" in said

    def of(name: str) -> list[float]:
        return [step[name] for step in steps]

    scores = of("critic/score/mean")
    assert f"{statistics.mean(scores[:10]):.3f}".lstrip("0") in said
    assert f"{statistics.mean(scores[10:]):.3f}".lstrip("0") in said
    correlation = f"{min(of('training/rollout_actor_probs_pearson_corr')):.3f}"
    assert f"at least {correlation}".replace("0.", ".") in said
    assert f"took {statistics.median(of('timing_s/step')):.1f} s (median)" in said
    for phase in ("gen", "update_weights", "update_actor"):
        assert f"{statistics.median(of(f'timing_s/{phase}')):.1f}" in said, phase
    assert f"peak was {max(of('actor/perf/max_memory_allocated_gb')) * 2**30 / 1e9:.1f} GB" in said
    if run == "dph_js":
        assert {*of("dph/rows")} == {8.0} and "8 D_pef rows" in said
        assert f"at most {max(of('dph/divergence')):.4f}".replace("0.", ".") in said
        resumed = of("timing_s/step")[30:]
        seconds = report("pretrained_dph_js_evaluation.json")["stage_seconds"]
        text = " ".join(SECTION.split())
        assert f"took {seconds['train_dph_js'] - sum(resumed):.0f} s, and its first step {resumed[0]:.0f} s" in text
        of_stages = [f"{seconds[stage]:.0f} s" for stage in ("model", "presample", "store", "evaluate_dph_js")]
        expected = "Fine-tuning took {}, the samples {}, the store {} and the evaluation {}, each"
        assert expected.format(*of_stages) in text


def test_the_resumed_run_repeats_the_step_after_its_checkpoint():
    assert "Step 31 was the same as before in reward, divergence and gradient norm" in " ".join(SECTION.split())
    before, after = steps_of("pretrained_dph_js_stopped.jsonl"), steps_of("pretrained_dph_js.jsonl")[30:39]
    assert [step["training/global_step"] for step in before] == list(range(31, 40))
    equal = [
        all(
            step[name] == pytest.approx(again[name], rel=1e-6)
            for name in ("critic/score/mean", "dph/divergence", "actor/grad_norm")
        )
        for step, again in zip(before, after, strict=True)
    ]
    assert equal == [True] + 8 * [False]


def test_the_evaluation_on_the_gpu():
    found = report("pretrained_dph_js_evaluation.json")
    for name, model in (("base", "base"), ("DPH-JS", "dph_js")):
        splits = [found["correct"][model][split] for split in ("in_domain", "out_of_domain")]
        cells = [
            f"{pass_at_k(np.array(correct), found['samples'], k).mean():.3f}" for correct in splits for k in (1, 8, 32)
        ]
        assert f"| {name} | {' | '.join(cells)} |" in SECTION


def test_the_noise_of_bf16():
    results = report("bf16_noise.json")["results"]
    for deviation in (8.0, 16.0):
        worst = max(of["tokens"]["d/(1-p)"] for of in results if of["logits"] == deviation)
        assert f"{worst:.3f}" in SECTION, deviation
