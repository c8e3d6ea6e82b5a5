"""From pre-sampling to a report, as docs/tutorials/own-database.md and the launch scripts do it (see conftest.py)."""

import io
import json
import shutil
import sys
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from rl.common.fingerprint import file_sha256, model_hash
from rl.data.sample_file import read_samples
from tests.end_to_end.conftest import newest_checkpoint
from tests.tiny_run import metrics_of
from verl.dph.pef.store import Store
from verl.dph.pef.verify import Tolerance

pytestmark = pytest.mark.timeout(600)


def ids_of(parquet) -> list[int]:
    return pq.read_table(parquet)["id"].to_pylist()


def steps_of(run) -> list[tuple[int, dict]]:
    return list(metrics_of(run / "metrics").items())


def test_store_holds_the_correct_refinement_samples_and_loses_no_prompt(stored):
    store = Store.load(str(stored.data / "pef.pt"))
    samples = {record.id: record for record in read_samples(stored.data / "pef.samples.jsonl")}
    split = {name: ids_of(io.BytesIO(content)) for name, content in stored.split.items()}
    assert sorted(samples) == sorted(split["correct"])
    kept = sorted(i for i, record in samples.items() if record.acc == 1 and not record.truncated)
    assert sorted(row.id for row in store.rows) == kept and kept
    for name, content in stored.split.items():
        assert (stored.data / f"train_{name}.parquet").read_bytes() == content
    failed = ids_of(stored.data / "train_correct.failed.parquet")
    assert sorted(failed) == sorted(set(split["correct"]) - set(kept))
    for row in store.rows:
        assert row.response.tolist() == samples[row.id].response_ids


def test_the_store_is_checked_and_leaves_nothing_behind(stored):
    assert "computed again differ by" in stored.outputs["store"]
    assert stored.outputs["store"].endswith("Next: dph train js_kl my_run\n")
    assert not (stored.data / "pef.parts").exists() and not (stored.data / "pef.pt.unchecked").exists()


def test_reference_log_probs_are_the_base_models(stored):
    model = AutoModelForCausalLM.from_pretrained(stored.model)
    for row in Store.load(str(stored.data / "pef.pt")).rows[:10]:
        with torch.no_grad():
            logits = model(torch.cat([row.prompt, row.response])[None]).logits[0, len(row.prompt) - 1 : -1]
        expected = logits.log_softmax(-1).gather(1, row.response.long()[:, None])[:, 0]
        torch.testing.assert_close(row.ref_log_probs, expected, atol=1e-4, rtol=0)


def test_the_same_samples_make_the_same_store_in_bf16_except_for_rounding(stored, stored_in_bf16):
    exact, half = Store.load(str(stored.data / "pef.pt")), Store.load(str(stored_in_bf16))
    assert (exact.meta["engine_dtype"], half.meta["engine_dtype"]) == ("float32", "bfloat16")
    assert half.fingerprint() == exact.fingerprint()
    tolerance = Tolerance.of("bfloat16", None)
    for one, other in zip(exact.rows, half.rows, strict=True):
        assert 0 < tolerance.difference(one.ref_log_probs, other.ref_log_probs).share < 1
    said = stored.outputs["store_in_bf16"]
    assert "(mean over a row; tolerance 0.02, or 0.25 times the mean of 1 - p)" in said, said[-4000:]


def test_sigterm_ends_training_in_order(trained):
    code, output = trained.stopped
    assert code == 143, output[-4000:]
    resumed = f"It goes on after step {trained.resumed_from}."
    assert f"\n{resumed}\nStopped by SIGTERM: re-run the same command to resume.\n" in output, output[-4000:]
    assert "Traceback" not in output, output[-4000:]


def test_a_scorer_that_dies_stops_training_with_a_sentence(trained):
    """Rewards that cannot be had are never 0: the run ends."""
    code, output = trained.resumed
    assert code == 2, output[-4000:]
    assert "rollouts failed in step" in output.splitlines()[-1] or "Error: " in output, output[-2000:]


def test_training_rehearses_in_every_step_and_resumes(trained, stored_in_bf16):
    steps = steps_of(trained.runs / "js")
    # SIGTERM may come between the console's line of step 2 and the file's, and the scorer may die a step later.
    assert trained.resumed_from >= 2 and steps[0][0] == 1
    resumed = [step for step, _ in steps if step > trained.resumed_from]
    assert len(resumed) in (2, 3) and resumed == [trained.resumed_from + 1 + number for number in range(len(resumed))]
    rows = len(Store.load(str(stored_in_bf16)))
    for step, metrics in steps:
        assert metrics["dph/rows"] == 4 and metrics["dph/tokens"] > 0 and metrics["dph/failed_rollouts"] == 0
        assert metrics["dph/epoch"] == pytest.approx(4 * step / rows)  # the order goes on where the checkpoint was
        assert metrics["dph/loss"] == pytest.approx(0.2 * metrics["dph/divergence"], rel=1e-4)
    # The first mini-batch of the first step is at the initial policy, where the divergence is zero.
    assert 0 <= steps[0][1]["dph/divergence"] < 1e-2 and 0 <= steps[0][1]["dph/kl_ref_policy"] < 0.1


def test_every_checkpoint_has_a_manifest(trained, stored_in_bf16):
    for step in range(1, trained.resumed_from + 3):
        manifest = json.loads((trained.runs / "js" / f"global_step_{step}" / "manifest.json").read_text())
        assert manifest["step"] == step and manifest["git"] is not None and manifest["packages"]["verl"]
        assert manifest["data"]["sft_pt"] == {str(stored_in_bf16): file_sha256(stored_in_bf16)}
        assert manifest["model"]["model_hash"] == model_hash(trained.model)
        assert manifest["settings"]["actor_rollout_ref"]["actor"]["sft_loss_mode"] == "js_low_var"


def test_rollout_and_actor_agree(trained):
    """The rollout samples in float32 and the actor computes in bf16; tests/resume has both in float32."""
    for _, metrics in steps_of(trained.runs / "js"):
        assert 1e-6 < metrics["training/rollout_probs_diff_mean"] < 1e-2


def test_checkpoint_is_evaluated_into_a_report(trained):
    """From the shards of two ranks, as a run without hf_model leaves them."""
    out, checkpoint = trained.folder / "eval", trained.folder / "sharded" / "actor"
    weights = Path("huggingface", "model.safetensors")
    saved = trained.runs / "js" / f"global_step_{newest_checkpoint(trained.runs / 'js')}" / "actor"
    shutil.copytree(saved, checkpoint, ignore=shutil.ignore_patterns("optim_*", weights.name))
    command = [
        *(sys.executable, "-m", "verl.dph.evaluate", "device=cpu", "trainer.n_gpus_per_node=1"),
        f"evaluate.models={{base:'{trained.model}',dph_js:'{checkpoint.parent}'}}",
        f"evaluate.splits={{in_domain:'{trained.task / 'test_in_domain.parquet'}'}}",
        *(f"evaluate.output={out}", "evaluate.n=8"),
        *("data.max_prompt_length=40", "data.max_response_length=48", "actor_rollout_ref.rollout.max_model_len=88"),
        "actor_rollout_ref.rollout.top_p=1.0",
    ]
    trained.succeed(*command, VERL_PLATFORM="cpu")
    merged, of_verl = load_file(checkpoint / "huggingface_merged" / weights.name), load_file(saved / weights)
    assert merged.keys() == of_verl.keys() and all(torch.equal(merged[name], of_verl[name]) for name in merged)
    assert "| DPH-JS |" in (out / "tables.md").read_text()
    report = json.loads((out / "report.json").read_text())
    for method in ("base", "base_again", "dph_js"):
        of = report[method]["in_domain"]
        assert set(of["pass@k"]) == {"1", "2", "4", "8"} and of["prompts"] == 6
        assert all(low <= value <= high for value, low, high in of["pass@k"].values())
        assert of["maj_by"] == "result" and of["distinct_results"][0] >= 1
    assert "<svg" in (out / "report.html").read_text()


def test_nothing_is_left_running(trained):
    # Ray's workers notice within seconds that their program has ended.
    left = [process for process in psutil.process_iter(["cmdline", "environ"]) if of_project(process, trained)]
    _, left = psutil.wait_procs(left, timeout=30)
    assert not [process.info["cmdline"] for process in left]


def of_project(process, project) -> bool:
    """Whether a Ray process carries the environment of this project's runs."""
    environment = process.info["environ"] or {}
    name = " ".join(process.info["cmdline"] or [])
    return environment.get("OUTPUT_DIR") == str(project.runs) and ("ray" in name or "verl.dph" in name)
