"""The stages of the demo: which programs, with which settings, into which files."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from verl.dph.demo.scorer import REPOSITORY, ScorerServer
from verl.dph.demo.stages import Pipeline, Stage
from verl.dph.errors import UserError
from verl.dph.evaluation.claims import assert_styles
from verl.dph.evaluation.report import write_report
from verl.dph.evaluation.spec import read_spec

SCRIPTS = REPOSITORY / "scripts" / "llama"

TRAIN_PROMPTS, EVAL_PROMPTS, SAMPLES_PER_PROMPT, THRESHOLD, EVAL_SAMPLES = 384, 96, 8, 6, 32
ETA = 0.2

# DEMO.md, "Setting". Variables of scripts/lib/llama_sql.sh.
SETTINGS = {
    "DEVICE": "cpu",
    "MAX_PROMPT_LENGTH": "40",
    "MAX_RESPONSE_LENGTH": "48",
    "TRAIN_BATCH_SIZE": "16",
    # Four optimizer steps a step where the study had two: with SCORER.md's partial credit, which is rarely given here
    # (one column), two leave GRPO halfway to one style after 80 steps.
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
# Checkpoints also hold the weights as a Hugging Face folder, which evaluation reads.
OVERRIDES = [
    "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
    "actor_rollout_ref.actor.optim.weight_decay=0.0",
    # 320 updates in all: verl's second beta, .999, would remember the first of them to the end.
    "actor_rollout_ref.actor.optim.betas=[0.9,0.99]",
    "trainer.max_actor_ckpt_to_keep=2",
    # The hf rollout's log-probs are the actor's to 1e-7 in float32 (tests/end_to_end), so they need not be computed
    # twice.
    "algorithm.rollout_correction.bypass_mode=True",
    "actor_rollout_ref.actor.calculate_entropy=True",
]


@dataclass(frozen=True)
class Method:
    """A row of the report: its launch script and the script's arguments after the name."""

    label: str
    script: str
    arguments: tuple[str, ...] = ()


METHODS = {
    "grpo": Method("GRPO", "grpo.sh"),
    "dapo": Method("DAPO", "dapo.sh"),
    "dapo_exp": Method("DAPO on D_exp, eta 0", "js_kl.sh", ("0",)),
    "dph_f": Method(f"DPH-F, eta {ETA}", "forward_kl.sh", (str(ETA),)),
    "dph_js": Method(f"DPH-JS, eta {ETA}", "js_kl.sh", (str(ETA),)),
}

SUMMARY = (
    "A base model of 250 thousand parameters writes SQL in five styles for questions about two databases (in "
    "domain) and "
    "two that training never sees (out of domain). It was pre-sampled {k} times on {prompts} prompts; those with at "
    "least "
    "{threshold} correct answers, answered correctly once more, are rehearsed (D_pef), the others explored (D_exp). "
    "Every "
    "method then trained {steps} steps of 16 prompts x 16 samples with verl, on rewards from executed queries."
)
CAVEATS = (
    "One seed and one base model: differences of Pass@k between methods are a few points here and depend on the "
    "setting; "
    "only the number of styles is stable.",
    "Much of the gain over GRPO comes from clip-higher and from training on hard prompts alone: compare with dapo_exp "
    "(make demo METHODS=grpo,dapo_exp,dph_js), which differs from DPH-JS by the divergence only.",
)


class Demo:
    """The demo in one folder.

    Args:
        out: the folder, absolute.
        methods: names of METHODS.
        steps: training steps of each.
        seed: of sampling, data order and training.
    """

    def __init__(self, out: Path, methods: list[str], steps: int, seed: int):
        if not SCRIPTS.is_dir():
            raise UserError(f"{SCRIPTS} does not exist: run the demo from a checkout installed with `make install`.")
        self.out, self.methods, self.steps, self.seed = out, methods, steps, seed
        self.task, self.model, self.data = out / "task", out / "model", out / "data"
        self.settings = SETTINGS | {
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

    def run(self) -> list[str]:
        """All stages, then the report. Returns the sentences of the checks that failed."""
        pipeline = self.pipeline
        pipeline.run(self._make_task())
        pipeline.run(self._make_model())
        with ScorerServer(self.out, self.task / "databases") as address:
            # Not part of a stage's settings: the port is another one every time.
            pipeline.environment["DPH_SCORER"] = address
            pipeline.run(self._presample())
            pipeline.run(self._split())
            pipeline.run(self._store())
            for method in self.methods:
                pipeline.run(self._train(method))
            pipeline.run(self._evaluate())
        return assert_styles(self._report())

    # ------------------------------------------------------------------------------------------------ stages

    def _make_task(self) -> Stage:
        sizes = ["--train", str(TRAIN_PROMPTS), "--eval", str(EVAL_PROMPTS)]
        command = [sys.executable, "-m", "verl.dph.demo.task", "--out", str(self.task), *sizes]
        return Stage("task", "Task: databases and questions", command, seconds=10)

    def _make_model(self) -> Stage:
        command = [sys.executable, "-m", "verl.dph.demo.model", "--task", str(self.task), "--out", str(self.model)]
        return Stage("model", "Base model, from scratch", command, seconds=85, needs=["task"])

    def _presample(self) -> Stage:
        samples = self.data / "generate_data" / "0.jsonl"
        return Stage(
            "presample",
            "Pre-sampling",
            ["bash", str(SCRIPTS / "offline_sampling.sh"), "sampling"],
            environment=self.settings | {"GPUS_PER_NODE": "2"},
            seconds=40,
            outputs=[samples.parent],
            total=TRAIN_PROMPTS * SAMPLES_PER_PROMPT,
            count=lambda: _lines(samples),
            needs=["model"],
        )

    def _split(self) -> Stage:
        script = REPOSITORY / "data" / "sql" / "process_data" / "exact_correct_id.py"
        files = {
            "--samples": self.data / "generate_data" / "0.jsonl",
            "--data": self.task / "train.parquet",
            "--out": self.data,
        }
        command = [sys.executable, str(script), *(str(part) for pair in files.items() for part in pair)]
        command += ["--threshold", str(THRESHOLD), "--n", str(SAMPLES_PER_PROMPT)]
        parts = [self.data / "train_correct.parquet", self.data / "train_wrong.parquet"]
        return Stage("split", "Split into D_exp and D_pef", command, seconds=8, outputs=parts, needs=["presample"])

    def _store(self) -> Stage:
        return Stage(
            "store",
            "Reference log-probs of D_pef",
            ["bash", str(SCRIPTS / "get_correct_data_tensor.sh")],
            environment=self.settings | {"GPUS_PER_NODE": "1"},
            seconds=50,
            outputs=[self.data / "pef.pt", self.data / "pef.samples.jsonl"],
            needs=["split"],
        )

    def _train(self, method: str) -> Stage:
        run = self.out / "runs" / method
        entry = METHODS[method]
        return Stage(
            f"train_{method}",
            f"Training {entry.label}",
            ["bash", str(SCRIPTS / entry.script), method, *entry.arguments, *OVERRIDES],
            # A step samples, then updates: the update has both cores, and its threads do not spin while others work.
            environment=self.settings
            | {
                "GPUS_PER_NODE": "1",
                "TOTAL_STEPS": str(self.steps),
                "OMP_NUM_THREADS": "2",
                "OMP_WAIT_POLICY": "PASSIVE",
            },
            seconds=50 + 2.2 * self.steps,
            outputs=[run],
            total=self.steps,
            count=lambda: max((step for step in _log_steps(run)), default=0),
            needs=["store"],
        )

    def _checkpoint(self, method: str) -> Path:
        return self.out / "runs" / method / f"global_step_{self.steps}" / "actor" / "huggingface"

    def _evaluate(self) -> Stage:
        models = {"base": self.model} | {method: self._checkpoint(method) for method in self.methods}
        splits = {split: self.task / f"test_{split}.parquet" for split in ("in_domain", "out_of_domain")}
        folder = self.out / "eval"
        command = [
            *(sys.executable, "-m", "verl.dph.evaluate", "device=cpu", "trainer.n_gpus_per_node=2"),
            f"evaluate.models={_mapping(models)}",
            f"evaluate.splits={_mapping(splits)}",
            f"evaluate.output={folder}",
            f"evaluate.n={EVAL_SAMPLES}",
            "evaluate.report=False",
            f"data.max_prompt_length={SETTINGS['MAX_PROMPT_LENGTH']}",
            f"data.max_response_length={SETTINGS['MAX_RESPONSE_LENGTH']}",
            f"actor_rollout_ref.rollout.max_model_len={88}",
            "actor_rollout_ref.rollout.top_p=1.0",
            f"actor_rollout_ref.rollout.seed={self.seed + 100}",
        ]
        draws = (len(models) * (EVAL_SAMPLES + 1) + EVAL_SAMPLES) * EVAL_PROMPTS * len(splits)
        return Stage(
            "evaluate",
            "Evaluation",
            command,
            environment={"VERL_PLATFORM": "cpu"},
            seconds=45 * len(models),
            outputs=[folder],
            total=draws,
            count=lambda: sum(_lines(path) for path in folder.rglob("*.jsonl")),
            needs=["model", *(f"train_{method}" for method in self.methods)],
        )

    # ------------------------------------------------------------------------------------------------ report

    def _report(self) -> dict:
        splits = ("in_domain", "out_of_domain")
        methods = {}
        for name in ("base", "base_again", *self.methods):
            greedy = "base" if name == "base_again" else name
            methods[name] = {
                "splits": {
                    split: {"samples": f"eval/{name}/{split}.jsonl", "greedy": f"eval/{greedy}/{split}.greedy.jsonl"}
                    for split in splits
                }
            }
            if name in METHODS:
                methods[name] |= {"label": METHODS[name].label, "training_log": str(self._training_log(name))}
        spec = {
            "title": "DPH-RL demo",
            "summary": SUMMARY.format(
                k=SAMPLES_PER_PROMPT, prompts=TRAIN_PROMPTS, threshold=THRESHOLD, steps=self.steps
            ),
            "methods": methods,
            "caveats": list(CAVEATS),
            "settings": SETTINGS | {"eta": ETA, "seed": self.seed, "steps": self.steps},
            "seconds": {name: round(seconds, 1) for name, seconds in self.pipeline.seconds.items()},
        }
        path = self.out / "spec.json"
        path.write_text(json.dumps(spec, indent=2) + "\n")
        return write_report(read_spec(path), self.out)

    def _training_log(self, method: str) -> Path:
        """The run's log in one file: verl begins a new one when it resumes."""
        run = self.out / "runs" / method
        whole = run / "metrics.jsonl"
        whole.write_bytes(b"".join(part.read_bytes() for part in sorted((run / "metrics").glob("*.jsonl"))))
        return whole


def _mapping(paths: dict[str, Path]) -> str:
    """A Hydra override's value; quoted, because a path may hold characters that Hydra reads."""
    return "{" + ",".join(f"{name}:'{path}'" for name, path in paths.items()) + "}"


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def _log_steps(run: Path) -> list[int]:
    """The steps that a run has logged."""
    steps = []
    for part in (run / "metrics").glob("*.jsonl") if run.exists() else ():
        with open(part, "rb") as file:
            file.seek(max(0, os.path.getsize(part) - 65_536))
            steps += [json.loads(line)["step"] for line in file.read().splitlines()[1:] if line.endswith(b"}")]
    return steps
