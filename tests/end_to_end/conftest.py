"""The whole pipeline once, at the size of a smoke test, through the launch scripts and the real scorer server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rl.cluster.scorer import temporary_scorer
from rl.demo.base_model import SftSettings, make_model
from rl.demo.experiment import scorer_config
from rl.demo.task import TaskSettings, make_task
from tests.programs import REPOSITORY, SMALL_RUN, apart, output_of

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


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
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
