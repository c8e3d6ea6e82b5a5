"""A run of the real trainer on a policy whose answers are known, with every logger.

The policy has learnt by heart to say "right" after "good", "wrong" after "bad", and one or the other after "mixed".
Two steps at a small learning rate change its log-probs, but not what it says.
"""

import os
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.programs import ON_CPU, output_of
from tests.tiny_run import metrics_of, prompt_row, save_store, teach

WORDS = ["<pad>", "<eos>", "<unk>", "right", "wrong", "good", "bad", "mixed", *(f"w{i}" for i in range(24))]
END, RIGHT, WRONG = 1, 3, 4
ANSWERS = {"good": (RIGHT,), "bad": (WRONG,), "mixed": (RIGHT, WRONG)}
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return {"score": float("right" in solution_str), "acc": float("right" in solution_str)}
"""

# (kind, correct pre-samples of 8): 3 of the 4 in the store are solved; 2 of the 4 that the base did not solve are. One
# of 8 samples is right after "mixed" except for a chance of 1/256, which the seed decides.
SOLVED = [("good", 8), ("good", 7), ("good", 6), ("bad", 6), ("bad", 6)]  # the last one is not in the store
STORED = 4
EXPLORED = [("mixed", 0), ("bad", 0), ("good", 0), ("bad", 0), ("mixed", 3), ("mixed", 4), ("good", 5), ("mixed", 2)]

TAGS = ("js_low_var", "tiny")
SETTINGS = {
    "device": "cpu",
    "data.seed": 1,
    "data.train_batch_size": 4,
    "data.max_prompt_length": 8,
    "data.max_response_length": 8,
    "data.sft_batch_size": 4,
    "actor_rollout_ref.rollout.n": 4,
    "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True,
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": 400,
    "actor_rollout_ref.rollout.val_kwargs.n": 2,
    "actor_rollout_ref.rollout.val_kwargs.do_sample": True,
    "actor_rollout_ref.rollout.val_kwargs.temperature": 1.0,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 2,
    "actor_rollout_ref.actor.use_dynamic_bsz": True,
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": 400,
    "actor_rollout_ref.actor.optim.lr": 1e-3,
    "actor_rollout_ref.actor.sft_loss_mode": "js_low_var",
    "actor_rollout_ref.actor.sft_loss_coeff": 0.2,
    "actor_rollout_ref.actor.sft_loss_control.type": "warmup",
    "actor_rollout_ref.actor.sft_loss_control.warmup_steps": 4,
    "algorithm.adv_estimator": "grpo",
    "reward.custom_reward_function.name": "compute_score",
    "trainer.project_name": "dph",
    "trainer.total_epochs": 10,
    "trainer.total_training_steps": 2,
    "trainer.test_freq": 1,
    "trainer.save_freq": 2,  # its manifest says how validation sampled
    "trainer.experiment_name": "probed",
    "trainer.logger": "[console,file,tensorboard,wandb,swanlab]",
    "trainer.tags": f"[{','.join(TAGS)}]",
}
TIME_LIMIT_S = 500  # 45 s on two cores that nobody else uses


def prompt_of(kind: str, number: int) -> list[str]:
    return [kind, f"w{number}"]


def teach_model(folder: Path, word_llama) -> None:
    """A Llama of 2 layers, fine-tuned until what it says after a prompt is as good as certain."""
    model = word_llama(folder, WORDS, template="{{ messages[0]['content'] }}", max_position_embeddings=32)
    sequences = torch.tensor(
        [
            [*(WORDS.index(word) for word in prompt_of(kind, number)), answer, END]
            for kind, answers in ANSWERS.items()
            for answer in answers
            for number in range(24)
        ]
    )
    teach(model, sequences, lr=1e-2, steps=300)
    model.save_pretrained(folder)


def save_prompts(path: Path, first: int, rows: list[tuple[str, int]]) -> None:
    pd.DataFrame(
        prompt_row(id, " ".join(prompt_of(kind, id)), base_correct=correct)
        for id, (kind, correct) in enumerate(rows, first)
    ).to_parquet(path)


class Run:
    """A finished run: its output, and the file logger's metrics by step."""

    def __init__(self, task: Path):
        self.folder, self.elsewhere = task / "run", task / "working_directory"
        self.folder.mkdir()
        self.elsewhere.mkdir()
        data = {
            "actor_rollout_ref.model.path": task / "model",
            "data.train_files": task / "train_wrong.parquet",
            "data.val_files": task / "train_correct.parquet",
            "data.sft_files": task / "train_correct.parquet",
            "data.sft_pt": task / "pef.pt",
            "reward.custom_reward_function.path": task / "reward.py",
            "trainer.default_local_dir": self.folder,
        }
        offline = {"WANDB_MODE": "offline", "SWANLAB_MODE": "offline"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "SWANLAB_"))}
        self.output = output_of(
            [sys.executable, "-m", "verl.dph.main", *(f"{k}={v}" for k, v in (SETTINGS | data).items())],
            cwd=self.elsewhere,
            environment=kept | ON_CPU | offline | {"HOME": str(self.folder)},
            timeout=TIME_LIMIT_S,
        )
        self.metrics = metrics_of(self.folder / "metrics")


@pytest.fixture(scope="session")
def task(tmp_path_factory, word_llama) -> Path:
    """A folder with model/, train_correct.parquet, train_wrong.parquet, pef.pt and reward.py."""
    folder = tmp_path_factory.mktemp("probe")
    teach_model(folder / "model", word_llama)
    save_prompts(folder / "train_correct.parquet", 0, SOLVED)
    save_prompts(folder / "train_wrong.parquet", len(SOLVED), EXPLORED)
    # "right" after the first prompts of SOLVED
    stored = enumerate(SOLVED[:STORED])
    responses = [(i, " ".join(prompt_of(kind, i)), torch.tensor([RIGHT, END])) for i, (kind, _) in stored]
    save_store(folder / "pef.pt", folder / "model", responses)
    (folder / "reward.py").write_text(REWARD)
    return folder


@pytest.fixture(scope="session")
def probed(task) -> Run:
    return Run(task)
