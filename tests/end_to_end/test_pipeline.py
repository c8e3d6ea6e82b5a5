"""The whole pipeline once, from pre-sampling to a report, as docs/tutorials/own-database.md does it: at the size of a
smoke test, through the launch scripts and the real scorer server.
"""

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from rl.cluster.scorer import temporary_scorer
from rl.common.fingerprint import file_sha256, model_hash
from rl.data.sample_file import read_samples
from rl.demo.base_model import SftSettings, make_model
from rl.demo.experiment import scorer_config
from rl.demo.task import TaskSettings, make_task
from tests.programs import REPOSITORY, SMALL_RUN, apart, output_of
from tests.tiny_run import metrics_of
from verl.dph.pef.store import Store
from verl.dph.pef.verify import difference

pytestmark = pytest.mark.timeout(600)

SETTINGS = SMALL_RUN | {
    "data.max_prompt_length": "40",
    "data.max_response_length": "48",
    "actor_rollout_ref.rollout.top_p": "1.0",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": "4000",
}
TIME_LIMIT_S = 280


class Project:
    """A folder in which the pipeline runs: task/, model/, data/, runs/."""

    def __init__(self, folder: Path):
        self.folder, self.task, self.model = folder, folder / "task", folder / "model"
        self.data, self.runs = folder / "data", folder / "runs"
        self.outputs: dict[str, str] = {}  # what each program printed
        self.environment = SETTINGS | {
            "MODEL_PATH": str(self.model),
            "TRAIN_FILE": str(self.task / "train.parquet"),
            "VAL_FILES": str(self.task / "test_in_domain.parquet"),
            "DATA_DIR": str(self.data),
            "SFT_PT": str(self.data / "pef.pt"),
            "OUTPUT_DIR": str(self.runs),
        }

    def succeed(self, *command: str, **environment: str) -> str:
        """What a program of the repository prints."""
        variables, words = apart(self.environment | environment)
        words = words if command[0] == "bash" else []
        return output_of([*command, *words], environment=os.environ | variables, timeout=TIME_LIMIT_S)

    def train_until(self, step: int, script: str, *arguments: str, **environment: str) -> tuple[subprocess.Popen, str]:
        """A training run that has logged `step` and goes on, and what it printed until then."""
        steps = {"trainer.total_training_steps": "1000", "trainer.save_freq": "-1"}
        variables, words = apart(self.environment | steps | environment)
        training = subprocess.Popen(
            ["bash", f"scripts/llama/{script}.sh", *arguments, *words],
            cwd=REPOSITORY,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        lines = []
        for line in training.stdout:
            lines.append(line)
            if f"step:{step} " in line:
                break
        return training, "".join(lines)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Task and base model are made, and a scorer serves its databases."""
    project = Project(tmp_path_factory.mktemp("project"))
    make_task(project.task, TaskSettings(train=40, eval=6, sft=3000))
    make_model(project.task, project.model, SftSettings(steps=300))
    with temporary_scorer(scorer_config(), project.task / "databases", project.folder / "scorer.log") as address:
        project.environment["DPH_SCORER"] = address
        yield project


WRITES = ("bash", "scripts/llama/get_correct_data_tensor.sh", "data.sft_reference_rows=2")

# verl's default on GPUs: parameters in float32, computed with in bf16 under autocast.
BF16 = "++actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=bf16"


@pytest.fixture(scope="module")
def stored(project):
    """Sampled 4 times, split at 1 of 4 (the tiny model is weak), refined, with reference log-probs."""
    project.succeed("bash", "scripts/llama/offline_sampling.sh", "sampling", "presample.n=4")
    project.succeed(
        *(sys.executable, "data/sql/process_data/exact_correct_id.py", "--threshold", "1", "--n", "4"),
        *("--samples", str(project.data / "generate_data" / "0.jsonl"), "--out", str(project.data)),
        *("--data", str(project.task / "train.parquet")),
    )
    project.split = {name: (project.data / f"train_{name}.parquet").read_bytes() for name in ("correct", "wrong")}
    project.outputs["store"] = project.succeed(*WRITES)
    return project


@pytest.fixture(scope="module")
def stored_in_bf16(stored):
    """The store of the same samples, so that nothing is drawn, computed in bf16: store_in_bf16/pef.pt."""
    data = stored.folder / "store_in_bf16"
    data.mkdir()
    for name, content in stored.split.items():
        (data / f"train_{name}.parquet").write_bytes(content)
    for samples in stored.data.glob("pef.samples.*"):
        (data / samples.name).write_bytes(samples.read_bytes())
    files = {"DATA_DIR": str(data), "SFT_PT": str(data / "pef.pt")}
    stored.outputs["store_in_bf16"] = stored.succeed(*WRITES, BF16, **files)
    return data / "pef.pt"


@pytest.fixture(scope="module")
def trained(stored, stored_in_bf16):
    """DPH-JS in bf16, on two ranks: SIGTERM after step 2, and a run that resumes and whose scorer dies after two more
    steps.
    """
    environment = {"GPUS_PER_NODE": "2", "trainer.save_freq": "1", "SFT_PT": str(stored_in_bf16)}
    settings = (
        *("js_kl", "js", "0.2", BF16),
        "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
        "trainer.max_actor_ckpt_to_keep=100",
    )
    training, output = stored.train_until(2, *settings, **environment)
    training.terminate()
    output += training.communicate(timeout=120)[0]
    stored.stopped, stored.resumed_from = (training.returncode, output), newest_checkpoint(stored.runs / "js")
    retries = "reward.custom_reward_function.reward_kwargs.retries=1"
    with temporary_scorer(scorer_config(), stored.task / "databases", stored.folder / "dying.log") as address:
        last = stored.resumed_from + 2
        training, output = stored.train_until(last, *settings, retries, DPH_SCORER=address, **environment)
    output += training.communicate(timeout=200)[0]
    stored.resumed = (training.returncode, output)
    return stored


def newest_checkpoint(run: Path) -> int:
    """The step at which the run resumes."""
    return int((run / "latest_checkpointed_iteration.txt").read_text())


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
    for one, other in zip(exact.rows, half.rows, strict=True):
        apart, allowed = difference(one.ref_log_probs, other.ref_log_probs, "bfloat16")
        assert 0 < apart < allowed
    said = stored.outputs["store_in_bf16"]
    assert "reference log-probs computed again differ by " in said, said[-4000:]


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
