"""One training run of 3 steps with vLLM on the CPU, through a launch script and the real scorer server.

`make test-vllm` runs these tests in an environment of its own (requirements-vllm-cpu.txt).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from transformers import LlamaForCausalLM

from rl.cluster.scorer import temporary_scorer
from rl.common.processes import end_process_tree
from rl.demo.base_model import Shape, build_model, tokenized
from rl.demo.experiment import scorer_config
from rl.demo.task import TaskSettings, make_task
from rl.demo.tokenizer import build_tokenizer, response_text
from tests.programs import REPOSITORY
from tests.tiny_run import store_origin
from verl.dph.pef.store import Row, Store

# The trainer waits forever when its vLLM worker dies in a weight update.
TIME_LIMIT_S = 540
STEPS = 3
# Prompts of a step, and D_pef rows: the store holds twice as many.
PROMPTS = 4


@pytest.fixture(scope="session")
def task(tmp_path_factory) -> Path:
    """Folder of the demo's task at its smallest."""
    folder = tmp_path_factory.mktemp("vllm") / "task"
    make_task(folder, TaskSettings(train=PROMPTS, eval=1, sft=2 * PROMPTS))
    return folder


@pytest.fixture(scope="session")
def random_model(task) -> Path:
    """Folder of a random model of the demo's shape; its weights are large, so that it is far from uniform."""
    folder, tokenizer = task.parent / "model", build_tokenizer()
    build_model(tokenizer, Shape(initializer_range=0.3), seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def store(task, random_model) -> Path:
    """A D_pef store of known solutions, with the random model's log-probs."""
    model = LlamaForCausalLM.from_pretrained(random_model)
    tokenizer, rows = build_tokenizer(), []
    for row in pq.read_table(task / "sft.parquet", columns=["id", "prompt", "solutions"]).to_pylist():
        row_id, example = row["id"], tokenized(tokenizer, row["prompt"], map(response_text, row["solutions"]))
        prompt, response = torch.tensor(example.prompt), torch.tensor(example.solutions[0])
        with torch.no_grad():
            logits = model(torch.cat([prompt, response])[None]).logits[0, len(prompt) - 1 : -1]
        rows.append(Row(row_id, prompt, response, logits.log_softmax(-1).gather(1, response[:, None])[:, 0]))
    path = task.parent / "pef.pt"
    Store(store_origin(random_model), rows).save(str(path))
    return path


@pytest.fixture(scope="session")
def metrics(task, random_model, store) -> list[dict[str, float]]:
    """The metrics of each step of DPH-F: its gradient on D_pef is never zero, whatever the rewards are."""
    runs = task.parent / "runs"
    with temporary_scorer(scorer_config(), task / "databases", task.parent / "scorer.log") as address:
        settings = {
            "VERBOSE": "1",
            "DEVICE": "cpu",
            "GPUS_PER_NODE": "1",
            "PYTHON": sys.executable,
            "OMP_NUM_THREADS": "1",
            "DPH_SCORER": address,
            "MODEL_PATH": str(random_model),
            "TRAIN_WRONG": str(task / "train.parquet"),
            "TRAIN_CORRECT": str(task / "sft.parquet"),
            "VAL_FILES": str(task / "test_in_domain.parquet"),
            "SFT_PT": str(store),
            "OUTPUT_DIR": str(runs),
            "MAX_PROMPT_LENGTH": "40",
            "MAX_RESPONSE_LENGTH": "48",
            "TRAIN_BATCH_SIZE": str(PROMPTS),
            "MINI_BATCH_SIZE": str(PROMPTS),
            "ROLLOUT_N": "4",
            "SFT_BATCH_SIZE": str(PROMPTS),
            "SFT_NORMALIZATION": "per_set",
            "LEARNING_RATE": "1e-2",
            "TOP_P": "1.0",
            "MAX_TOKENS_PER_GPU": "4000",
            "EPOCHS": "100",
            "TOTAL_STEPS": str(STEPS),
            "TEST_FREQ": "-1",
            "SAVE_FREQ": "-1",
        }
        command = ["bash", "scripts/llama/forward_kl.sh", "vllm", "1.0", "device=cpu_vllm"]
        _train(command, settings, task.parent / "train.log")
    [file] = (runs / "vllm" / "metrics").glob("*.jsonl")
    return [json.loads(line)["data"] for line in file.read_text().splitlines()]


def _train(command: list[str], settings: dict[str, str], log: Path) -> None:
    """Run a training program; end it and all that it started when it takes too long."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=os.environ | settings, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        outcome = f"ended with {process.wait(TIME_LIMIT_S)}"
    except subprocess.TimeoutExpired:
        outcome = f"did not end within {TIME_LIMIT_S} s"
    finally:
        end_process_tree(process)
    assert outcome == "ended with 0", f"{' '.join(command)} {outcome}:\n{log.read_text()[-8000:]}"
