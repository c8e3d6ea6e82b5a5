"""`dph plan`: what it prints for the paper's experiments and for runs that do not fit."""

import json
import re

import pytest

from rl import cli
from rl.checks.plan import plan_at_start
from rl.configuration.arguments import run_of

FLASH = "+actor_rollout_ref.model.override_config.attn_implementation=flash_attention_2"


@pytest.fixture
def plan(capsys, monkeypatch, plain_environment):
    """Run `dph plan WORDS` with these settings; its exit code and output."""

    def run(*words: str, **settings: str) -> tuple[int, str]:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        try:
            code = cli.main(["plan", *words])
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def row(out: str, label: str) -> list[str]:
    [line] = [line for line in out.splitlines() if line.strip().startswith(label)]
    return line.strip().removeprefix(label).split()


def test_the_table(plan):
    code, out = plan("scripts/llama/js_kl.sh", "run", "0.2", FLASH, GPUS_PER_NODE="8")
    assert code == 0 and out.startswith(
        "Llama-3.1-8B-Instruct, 8.03B parameters, on 8 x a800 (80 GB) with flash attention.\nAll figures are estimated"
    )
    assert "OFFLOAD=False  GPU_MEMORY_UTILIZATION=0.7  TENSOR_PARALLEL=1  MAX_TOKENS_PER_GPU=20096\n\n" in out
    assert row(out, "GB per GPU") == ["update", "rollout", "loading"]
    assert row(out, "of 80") == ["35.5", "72.2", "8.1"]
    assert row(out, "update") == ["7", "min"] and row(out, "step") == ["10", "min"]
    assert out.endswith("\nIt fits.\n")


def test_options_anywhere_and_json(plan):
    assert plan("js_kl", "run", "0.2", "--experiment", "qwen_math", FLASH)[1].startswith("Qwen2.5-Math-7B, 7.62B")
    code, out = plan("scripts/llama/js_kl.sh", "run", "--json", "0.2", "--gpu", "h100", FLASH)
    found = json.loads(out)
    assert code == 0 and found["fits"] and found["estimated"] and found["gpu"]["name"] == "h100"
    assert sum(found["seconds"].values()) / 60 == pytest.approx(3.56, abs=0.05)
    assert found["model"] == {"name": "Llama-3.1-8B-Instruct", "parameters": 8030261248}
    assert sum(found["bytes"]["update"].values()) == pytest.approx(35.5e9, abs=5e7)


def test_what_does_not_fit(plan):
    settings = dict(GPUS_PER_NODE="4", OFFLOAD="False", GPU_MEMORY_UTILIZATION=".7")
    code, out = plan("scripts/llama/js_kl.sh", "run", **settings)
    assert code == 1 and row(out, "of 80")[1] == "84.2"
    assert out.splitlines()[-1] == (
        "Does not fit: the second rollout needs 84 of 80 GB. To make it fit, set OFFLOAD=True or "
        "GPU_MEMORY_UTILIZATION=0.6."
    )


def test_it_says_what_the_script_chose(plan):
    code, out = plan("scripts/llama/grpo.sh", "run", FLASH, GPUS_PER_NODE="4")
    assert code == 0 and "The plan chose GPU_MEMORY_UTILIZATION=0.6.\n" in out
    sdpa = FLASH.replace("flash_attention_2", "sdpa")
    code, out = plan("scripts/qwen/grpo.sh", "run", sdpa, GPUS_PER_NODE="8")
    assert code == 0 and "  MAX_TOKENS_PER_GPU=4096\n" in out and "with sdpa." in out


@pytest.mark.parametrize(
    ("words", "settings", "sentence"),
    [
        (["scripts/llama/js_kl.sh"], {}, "Error: the run has no NAME; usage: bash "),
        (["scripts/llama/js_kl.sh", "run", "--gpu", "tpu"], {}, "Error: 'tpu' is not a known GPU type: "),
        (["scripts/llama/js_kl.sh", "run"], {"DEVICE": "cpu_vllm"}, "Error: a rollout other than hf on a CPU "),
        (["scripts/llama/js_kl.sh", "run"], {"TENSOR_PARALLEL": "two"}, "Error: TENSOR_PARALLEL='two' must be a whole"),
    ],
)
def test_no_plan(plan, words, settings, sentence):
    code, out = plan(*words, **settings)
    assert code == 2 and out.startswith(sentence) and len(out.splitlines()) == 1


def test_a_tiny_run_on_a_gpu_that_is_assumed(plan, tmp_path, monkeypatch):
    """Without a GPU and a GPU_TYPE the paper's type is assumed, and the plan says so; times are rounded for people."""
    shape = {"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64}
    shape |= {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    (tmp_path / "config.json").write_text(json.dumps(shape))
    monkeypatch.delenv("GPU_TYPE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    code, out = plan("scripts/llama/grpo.sh", "run", MODEL_PATH=str(tmp_path), GPUS_PER_NODE="1")
    assert out.startswith(f"{tmp_path}, 0.02M parameters, on 1 x a800")
    assert "No GPU was found here: a800 is assumed, GPU_TYPE names another.\n" in out
    assert row(out, "update") == ["under", "0.1", "s"]
    assert "is assumed" not in plan("--gpu", "a800", "scripts/llama/grpo.sh", "run")[1]


def test_on_a_cpu(plan, monkeypatch):
    """An 8B model: 16 bytes a parameter for the update, and 4 for the rollout."""
    monkeypatch.setattr("rl.checks.plan.memory", lambda: (25 * 10**9, 20 * 10**9))
    words = ["scripts/llama/js_kl.sh", "run", "device=cpu"]
    code, out = plan(*words)
    assert code == 1 and out.startswith("Llama-3.1-8B-Instruct, 8.03B parameters, on a CPU.\nAll figures are estimated")
    assert row(out, "parameters") == ["32.1"] and row(out, "Adam's moments") == ["64.2"]
    needed, _, rest = out.splitlines()[-1].removeprefix("Does not fit: it needs ").partition(" ")
    assert float(needed) == round(float(row(out, "of 25")[0])) > 160
    assert rest.startswith("of 25 GB. To make it fit, lower MAX_TOKENS_PER_GPU")
    code, out = plan(*words, "--json")
    found = json.loads(out)
    assert code == 1 and not found["fits"] and found["memory_bytes"] == 25e9
    assert found["bytes"]["gradients"] == 4 * 8030261248 == found["bytes"]["rollout's weights"]


def test_a_run_on_a_cpu_warns_before_it_starts(plain_environment, monkeypatch, capsys):
    run = run_of("scripts/llama/js_kl.sh", ["run", "device=cpu"])
    monkeypatch.setattr("rl.checks.plan.memory", lambda: (25 * 10**9, 20 * 10**9))
    assert plan_at_start(run) == []
    said = r"Warning: it would not fit \(estimated\): it needs [0-9]+ of 25 GB of memory: lower .*\n"
    assert re.fullmatch(said, capsys.readouterr().err)
    monkeypatch.setattr("rl.checks.plan.memory", lambda: (10**13, 10**13))
    assert plan_at_start(run) == [] and capsys.readouterr().err == ""
