"""What docs/explanation/measurements.md says of the GPU is in the reports of benchmarks/gpu that docs/study/gpu has."""

import json
import statistics

import pytest

from tests.docs.test_study import FOLDER, REPOSITORY

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


@pytest.mark.parametrize(("run", "count", "phases"), [("grpo", 20, 3), ("dph_js", 19, 1)])
def test_the_steps_of_the_pretrained_model(run, count, phases):
    lines = (FOLDER / "gpu" / f"pretrained_{run}.jsonl").read_text().splitlines()
    steps = [json.loads(line)["data"] for line in lines]
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
    for phase in ("gen", "update_weights", "update_actor")[:phases]:
        assert f"{statistics.median(of(f'timing_s/{phase}')):.1f}" in said, phase
    assert f"peak was {max(of('actor/perf/max_memory_allocated_gb')) * 2**30 / 1e9:.1f} GB" in said
    if run == "dph_js":
        assert {*of("dph/rows")} == {8.0} and "8 D_pef rows" in said
        assert f"at most {max(of('dph/divergence')):.4f}".replace("0.", ".") in said
        assert f"first step took {of('timing_s/step')[0]:.0f} s" in SECTION


def test_the_noise_of_bf16():
    results = report("bf16_noise.json")["results"]
    for deviation in (8.0, 16.0):
        worst = max(of["tokens"]["d/(1-p)"] for of in results if of["logits"] == deviation)
        assert f"{worst:.3f}" in SECTION, deviation
