"""The experiment on the tiny task: settings, and its programs as stages in one folder."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from rl.common.errors import UserError
from rl.data.training_run import checkpoint_folder
from rl.demo.methods import EXPERT, METHODS, NEEDS, STORES, Method
from rl.demo.scorer_process import REPOSITORY, scorer_server
from rl.demo.stages import Pipeline, Stage

SCRIPTS = REPOSITORY / "scripts" / "llama"

TRAIN_PROMPTS, EVAL_PROMPTS, SAMPLES_PER_PROMPT, THRESHOLD, EVAL_SAMPLES = 384, 96, 8, 6, 32
SPLITS = ("in_domain", "out_of_domain")
# Key of extra_info whose two kinds of questions have results of their own.
GROUPED_BY = "ambiguous"

# Files of verl/dph/config/device.
DEVICES = ("cpu", "cuda", "cuda_hf")

# Variables of verl/dph/config/experiment/llama_sql.yaml.
SETTINGS = {
    "MAX_PROMPT_LENGTH": "40",
    "MAX_RESPONSE_LENGTH": "48",
    "TRAIN_BATCH_SIZE": "16",
    # Four mini-batches per step: with two, GRPO is only halfway to one style after 80 steps (unambiguous questions).
    "MINI_BATCH_SIZE": "4",
    "ROLLOUT_N": "16",
    "SFT_BATCH_SIZE": "32",
    "SFT_NORMALIZATION": "per_set",
    "LEARNING_RATE": "3e-4",
    "TOP_P": "1.0",
    "MAX_TOKENS_PER_GPU": "20000",
    "EPOCHS": "1000",
    "SAVE_FREQ": "20",
    "TEST_FREQ": "-1",
    "OVERLONG_BUFFER": "4",
}
OVERRIDES = [
    # Evaluation reads the checkpoint's Hugging Face folder.
    "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
    "actor_rollout_ref.actor.optim.weight_decay=0.0",
    # 240 updates in all: with verl's second beta, .999, the first would never be forgotten.
    "actor_rollout_ref.actor.optim.betas=[0.9,0.99]",
    "trainer.max_actor_ckpt_to_keep=2",
    # The hf rollout's log-probs equal the actor's to 1e-7 in float32 (tests/end_to_end).
    "algorithm.rollout_correction.bypass_mode=True",
    "actor_rollout_ref.actor.calculate_entropy=True",
    # Over one rank: a sixth of the driver's time for nothing.
    "trainer.balance_batch=False",
]
# In bf16 the rollout's log-probs differ from the actor's.
OVERRIDES_ON_GPU = ["algorithm.rollout_correction.bypass_mode=False"]


def check_device(device: str) -> None:
    """Reject a GPU that is not there, and vLLM where it is not installed, before anything is made.

    Raises:
        UserError: saying what to do.
    """
    if device == "cpu":
        return
    import torch

    if not torch.cuda.is_available():
        raise UserError(
            f"--device {device} (make: DEVICE={device}) needs a GPU, and torch finds none here: leave it out to run on "
            "the CPU; if there is one, look at nvidia-smi, CUDA_VISIBLE_DEVICES and torch's build."
        )
    if device == "cuda" and not find_spec("vllm"):
        raise UserError(
            "--device cuda (make: DEVICE=cuda) samples with vLLM, which is not installed here: install it, or use "
            "cuda_hf, which samples with transformers."
        )


class Experiment:
    """Task, base model, pre-sampling, split, store, training runs and their evaluation, in one folder.

    Args:
        out: the folder, absolute.
        steps: training steps per run.
        seed: of sampling and the data; each training run has its own.
        device: one of DEVICES.
        at_once: programs at a time, on a CPU each with one busy core.
    """

    def __init__(self, out: Path, steps: int, seed: int, *, device: str = "cpu", at_once: int = 1):
        check_device(device)
        if not SCRIPTS.is_dir():
            raise UserError(f"{SCRIPTS} does not exist: run the demo from a checkout installed with `make install`.")
        self.out, self.steps, self.seed, self.device, self.at_once = out, steps, seed, device, at_once
        # Of a program: processes that sample, and threads of the update.
        self.replicas = 2 if device == "cpu" and at_once == 1 else 1
        self.threads = 2 if at_once == 1 else 1
        self.task, self.model, self.data = out / "task", out / "model", out / "data"
        self._presampled = self.data / "generate_data" / "0.jsonl"
        self._expert = self.data / "expert.jsonl"
        self.settings = SETTINGS | {
            "DEVICE": device,
            "PYTHON": sys.executable,
            "MODEL_PATH": str(self.model),
            "TRAIN_FILE": str(self.task / "train.parquet"),
            "VAL_FILES": str(self.task / "test_in_domain.parquet"),
            "DATA_DIR": str(self.data),
            "SFT_PT": str(self.data / "pef.pt"),
            "OUTPUT_DIR": str(out / "runs"),
            "SEED": str(seed),
        }
        self.pipeline = Pipeline(out, {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})

    def run_stages(self, stages: Sequence[Stage]) -> None:
        """Run the stages with a scorer beside them."""
        databases = self.task / "databases"
        databases.mkdir(parents=True, exist_ok=True)
        with scorer_server(self.out, databases) as address:
            # Not part of a stage's settings: the port changes every time.
            self.pipeline.environment["DPH_SCORER"] = address
            self.pipeline.run(stages, at_once=self.at_once)

    def prepare(self, methods: Iterable[str]) -> list[Stage]:
        """Everything before training `methods`."""
        sizes = ["--train", str(TRAIN_PROMPTS), "--eval", str(EVAL_PROMPTS)]
        command = [sys.executable, "-m", "rl.demo.task", "--out", str(self.task), *sizes]
        task = Stage("task", "Task: databases and questions", command, seconds=3)
        command = [sys.executable, "-m", "rl.demo.base_model", "--task", str(self.task), "--out", str(self.model)]
        model = Stage("model", "Base model, from scratch", command, seconds=70, needs=["task"])
        presample = Stage(
            "presample",
            "Pre-sampling",
            ["bash", str(SCRIPTS / "offline_sampling.sh"), "sampling"],
            environment=self.settings | {"GPUS_PER_NODE": str(self.replicas)},
            seconds=25,
            outputs=[self._presampled.parent],
            total=TRAIN_PROMPTS * SAMPLES_PER_PROMPT,
            count=lambda: _samples([self._presampled], TRAIN_PROMPTS * SAMPLES_PER_PROMPT),
            needs=["model"],
        )
        split = self._split("split", "Split into D_exp and D_pef", self.data, "--threshold", str(THRESHOLD))
        store = Stage(
            "store",
            "Reference log-probs of D_pef",
            ["bash", str(SCRIPTS / "get_correct_data_tensor.sh")],
            environment=self.settings | {"GPUS_PER_NODE": "1"},
            seconds=50,
            outputs=[self.data / "pef.pt", self.data / "pef.samples.jsonl"],
            needs=["split"],
        )
        stages = [task, model, presample, split, store]
        if "zero_success" in methods:
            options = ("--threshold", "1", "--keep-zero")
            stages.append(self._split("unsolved", "Unsolved prompts", self.data / "unsolved", *options))
        others = dict.fromkeys(METHODS[name].store for name in methods)
        if EXPERT in others:
            command = [sys.executable, "-m", "rl.demo.expert", "--task", str(self.task), "--out", str(self._expert)]
            stages.append(Stage(EXPERT, "Expert responses", command, seconds=2, outputs=[self._expert], needs=["task"]))
        return stages + [self._store(name) for name in others if name]

    def _store(self, name: str) -> Stage:
        """The store `name` of STORES. The default one comes first, because it moves prompts from D_pef to D_exp."""
        settings = STORES[name] | ({"SFT_RESPONSES": str(self._expert)} if name == EXPERT else {})
        return Stage(
            f"store_{name}",
            f"Reference log-probs of {name}",
            ["bash", str(SCRIPTS / "get_correct_data_tensor.sh")],
            environment=self.settings | {"GPUS_PER_NODE": "1"} | settings | {"SFT_PT": str(self._store_path(name))},
            seconds=50,
            outputs=[self._store_path(name).parent],
            needs=["store", EXPERT] if name == EXPERT else ["store"],
        )

    def _store_path(self, name: str) -> Path:
        return self.data / name / "pef.pt"

    def _split(self, name: str, title: str, folder: Path, *options: str) -> Stage:
        """A split of the training prompts by their samples into two files of the folder."""
        command = [
            *(sys.executable, str(REPOSITORY / "data" / "sql" / "process_data" / "exact_correct_id.py")),
            *("--samples", str(self._presampled), "--data", str(self.task / "train.parquet"), "--out", str(folder)),
            *(*options, "--n", str(SAMPLES_PER_PROMPT)),
        ]
        parts = [folder / "train_correct.parquet", folder / "train_wrong.parquet"]
        return Stage(name, title, command, seconds=2, outputs=parts, needs=["presample"])

    def train(self, name: str, method: Method, seed: int) -> Stage:
        """The training run `name`."""
        run = self.out / "runs" / name
        variable = "FOREIGN_PT" if method.store == EXPERT else "SFT_PT"
        store = {variable: str(self._store_path(method.store))} if method.store else {}
        overrides = OVERRIDES + ([] if self.device == "cpu" else OVERRIDES_ON_GPU)
        return Stage(
            f"train_{name}",
            f"Training {method.label}",
            ["bash", str(SCRIPTS / method.script), name, *method.arguments, *overrides],
            environment=self.settings
            | {
                "SEED": str(seed),
                "GPUS_PER_NODE": "1",
                "TOTAL_STEPS": str(self.steps),
                "OMP_NUM_THREADS": str(self.threads),
                "OMP_WAIT_POLICY": "PASSIVE",
            }
            | store
            | method.settings,
            seconds=50 + 3.0 * self.steps,
            outputs=[run],
            total=self.steps,
            count=lambda: _steps(run, self.steps),
            needs=[
                f"store_{method.store}" if method.store else NEEDS.get(method.script.removesuffix(".sh"), "store"),
            ],
        )

    def checkpoint(self, name: str) -> Path:
        """The last checkpoint of the training run `name`, as a Hugging Face folder."""
        return checkpoint_folder(self.out / "runs" / name, self.steps) / "actor" / "huggingface"

    def evaluate_base(self) -> Stage:
        """Two draws of the base: the second one is the noise floor."""
        return self._evaluate("base", "Evaluation of the base model, twice", self.model, "model", draws=2)

    def evaluate(self, name: str, label: str) -> Stage:
        """The last checkpoint of the training run `name`."""
        return self._evaluate(name, f"Evaluation of {label}", self.checkpoint(name), f"train_{name}")

    def _evaluate(self, name: str, title: str, model: Path, need: str, draws: int = 1) -> Stage:
        """Sample a model into OUT/eval/<name>."""
        splits = {split: self.task / f"test_{split}.parquet" for split in SPLITS}
        folder = self.out / "eval"
        command = [
            *(sys.executable, "-m", "verl.dph.evaluate", f"device={self.device}"),
            f"trainer.n_gpus_per_node={self.replicas}",
            f"evaluate.models={_mapping({name: model})}",
            f"evaluate.splits={_mapping(splits)}",
            f"evaluate.output={folder}",
            f"evaluate.n={EVAL_SAMPLES}",
            "evaluate.report=False",
            f"data.max_prompt_length={SETTINGS['MAX_PROMPT_LENGTH']}",
            f"data.max_response_length={SETTINGS['MAX_RESPONSE_LENGTH']}",
            "actor_rollout_ref.rollout.max_model_len=88",
            "actor_rollout_ref.rollout.top_p=1.0",
            f"actor_rollout_ref.rollout.seed={self.seed + 100}",
        ]
        total = (draws * EVAL_SAMPLES + 1) * EVAL_PROMPTS * len(splits)
        folders = [folder / name, folder / "base_again"][:draws]
        return Stage(
            f"evaluate_{name}",
            title,
            command,
            environment={"VERL_PLATFORM": "cpu"} if self.device == "cpu" else {},
            seconds=15 + 15 * draws,
            outputs=folders,
            total=total,
            count=lambda: _samples([path for of_draw in folders for path in of_draw.rglob("*.jsonl")], total),
            needs=[need],
        )


def questions() -> dict[str, object]:
    """The keys of a report's specification that say what was asked, relative to OUT."""
    return {"questions": {split: f"task/test_{split}.parquet" for split in SPLITS}, "groups": [GROUPED_BY, "family"]}


def sample_files(name: str) -> dict[str, dict[str, str]]:
    """A model's samples files by split, relative to OUT, for a report's specification."""
    greedy = "base" if name == "base_again" else name
    return {
        split: {"samples": f"eval/{name}/{split}.jsonl", "greedy": f"eval/{greedy}/{split}.greedy.jsonl"}
        for split in SPLITS
    }


def _mapping(paths: dict[str, Path]) -> str:
    """A Hydra override's value; quoted, because a path may hold characters that Hydra parses."""
    return "{" + ",".join(f"{name}:'{path}'" for name, path in paths.items()) + "}"


def _samples(files: Iterable[Path], total: int) -> tuple[int, str]:
    """How many samples there are, and how many of how many."""
    drawn = sum(path.read_bytes().count(b"\n") for path in files if path.exists())
    return drawn, f"sample {drawn:,}/{total:,}"


def _steps(run: Path, total: int) -> tuple[int, str]:
    """The last step that a run has logged, with its reward."""
    step, reward = 0, ""
    for part in (run / "metrics").glob("*.jsonl"):
        with open(part, "rb") as file:
            file.seek(max(0, os.path.getsize(part) - 65_536))
            rows = [line for line in file.read().splitlines() if line.startswith(b'{"step"') and line.endswith(b"}}")]
        if rows and (row := json.loads(rows[-1]))["step"] > step:
            step, reward = row["step"], f"{row['data']['critic/score/mean']:.2f}".removeprefix("0")
    return step, f"step {step}/{total}" + (f"  reward {reward}" if reward else "")
