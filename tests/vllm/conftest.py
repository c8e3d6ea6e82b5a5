"""One training run of 3 steps with vLLM on the CPU, through a launch script and the real scorer server.

`make test-vllm` runs these tests in an environment of its own (requirements-vllm-cpu.txt).
"""

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from rl.cluster.scorer import temporary_scorer
from rl.demo.base_model import tokenized
from rl.demo.experiment import scorer_config
from rl.demo.task import TaskSettings, make_task
from rl.demo.tokenizer import build_tokenizer, response_text
from tests.programs import SMALL_RUN, apart, output_of
from tests.tiny_run import save_demo_model, save_store

# The trainer waits forever when its vLLM worker dies in a weight update.
TIME_LIMIT_S = 540
STEPS = 3
# Prompts of a step, and D_pef rows: the store holds twice as many.
PROMPTS = int(SMALL_RUN["data.train_batch_size"])


@pytest.fixture(scope="session")
def task(tmp_path_factory) -> Path:
    """Folder of the demo's task at its smallest."""
    folder = tmp_path_factory.mktemp("vllm") / "task"
    make_task(folder, TaskSettings(train=PROMPTS, eval=1, sft=2 * PROMPTS))
    return folder


@pytest.fixture(scope="session")
def random_model(task) -> Path:
    save_demo_model(task.parent / "model")
    return task.parent / "model"


@pytest.fixture(scope="session")
def store(task, random_model) -> Path:
    """A D_pef store of known solutions, with the random model's log-probs."""
    tokenizer, responses = build_tokenizer(), []
    for row in pq.read_table(task / "sft.parquet", columns=["id", "prompt", "solutions"]).to_pylist():
        example = tokenized(tokenizer, row["prompt"], map(response_text, row["solutions"]))
        responses.append((row["id"], torch.tensor(example.prompt), torch.tensor(example.solutions[0])))
    save_store(task.parent / "pef.pt", random_model, responses)
    return task.parent / "pef.pt"


@pytest.fixture(scope="session")
def metrics(task, random_model, store) -> list[dict[str, float]]:
    """The metrics of each step of DPH-F: its gradient on D_pef is never zero, whatever the rewards are."""
    runs = task.parent / "runs"
    with temporary_scorer(scorer_config(), task / "databases", task.parent / "scorer.log") as address:
        settings = SMALL_RUN | {
            "VERBOSE": "1",
            "DPH_SCORER": address,
            "MODEL_PATH": str(random_model),
            "launch.train_wrong": str(task / "train.parquet"),
            "launch.train_correct": str(task / "sft.parquet"),
            "VAL_FILES": str(task / "test_in_domain.parquet"),
            "SFT_PT": str(store),
            "OUTPUT_DIR": str(runs),
            "data.max_prompt_length": "40",
            "data.max_response_length": "48",
            "actor_rollout_ref.actor.ppo_mini_batch_size": str(PROMPTS),
            "actor_rollout_ref.actor.optim.lr": "1e-2",
            "actor_rollout_ref.rollout.top_p": "1.0",
            "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": "4000",
            "trainer.total_training_steps": str(STEPS),
            "trainer.save_freq": "-1",
        }
        variables, words = apart(settings)
        command = ["bash", "scripts/llama/forward_kl.sh", "vllm", "1.0", "device=cpu_vllm", *words]
        output_of(command, environment=os.environ | variables, timeout=TIME_LIMIT_S)
    [file] = (runs / "vllm" / "metrics").glob("*.jsonl")
    return [json.loads(line)["data"] for line in file.read_text().splitlines()]
