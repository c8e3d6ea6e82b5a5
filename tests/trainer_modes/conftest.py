"""A run of training at its smallest: a random model, prompts and a store made here, and a reward without a scorer."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.programs import ON_CPU, output_of
from tests.tiny_run import metrics_of, prompt_row, save_store

TIME_LIMIT_S = 420
PROMPTS, VALIDATED, STORE_ROWS = 24, 4, 12
WORDS = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(497))]
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"

# Answers with an odd number of words are right, whatever the model learns.
REWARD = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return {"score": float(len(solution_str.split()) % 2), "acc": float(len(solution_str.split()) % 2)}
"""

SETTINGS = {
    "device": "cpu",
    "data.train_batch_size": 4,
    "data.max_prompt_length": 8,
    "data.max_response_length": 1500,
    "data.sft_batch_size": 4,
    "actor_rollout_ref.rollout.n": 2,
    # The server answers 8 requests at a time: those of the 4 prompts of a step.
    "actor_rollout_ref.rollout.max_num_seqs": 8,
    "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True,
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": 8000,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 2,
    "actor_rollout_ref.actor.use_dynamic_bsz": True,
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": 8000,
    "actor_rollout_ref.actor.optim.lr": 1e-2,
    "actor_rollout_ref.actor.sft_loss_mode": "js_low_var",
    "actor_rollout_ref.actor.sft_loss_coeff": 0.2,
    "actor_rollout_ref.actor.checkpoint.save_contents": "[model,optimizer,extra,hf_model]",
    "algorithm.adv_estimator": "grpo",
    "reward.custom_reward_function.name": "compute_score",
    "trainer.logger": "[console,file]",
    "trainer.total_epochs": 100,
    "trainer.val_before_train": False,
    "trainer.test_freq": -1,
    "trainer.save_freq": -1,
}


class Training:
    """A folder with model/, data.parquet, pef.pt and reward.py, in which runs of training are started."""

    def __init__(self, folder: Path, word_llama):
        self.folder, self.model = folder, folder / "model"
        self.data, self.store, self.reward = folder / "data.parquet", folder / "pef.pt", folder / "reward.py"
        self.validation = folder / "validation.parquet"
        # An answer is as long as 500 words in the mean, and some are cut.
        size = {"max_position_embeddings": 2048, "tie_word_embeddings": True, "initializer_range": 0.1}
        word_llama(self.model, WORDS, template=TEMPLATE, **size)
        save_prompts(self.data, range(PROMPTS))
        save_prompts(self.validation, range(100, 100 + VALIDATED))
        save_store(self.store, self.model, responses_of_5_tokens())
        self.reward.write_text(REWARD)

    def settings(self, name: str, **changes) -> dict[str, object]:
        """SETTINGS for a run of this name, with changes (a.b is written a__b)."""
        folder = self.folder / name
        return SETTINGS | {
            "actor_rollout_ref.model.path": self.model,
            "data.train_files": self.data,
            "data.val_files": self.validation,
            "data.sft_files": self.data,
            "data.sft_pt": self.store,
            "reward.custom_reward_function.path": self.reward,
            "trainer.default_local_dir": folder,
            "trainer.rollout_data_dir": folder / "rollouts",
            "trainer.validation_data_dir": folder / "validation",
            **{key.replace("__", "."): value for key, value in changes.items()},
        }

    def output(self, name: str, code: int = 0, **changes) -> str:
        """What `python -m verl.dph.main` prints."""
        metrics = self.folder / name / "metrics"
        metrics.mkdir(parents=True, exist_ok=True)
        # A resumed run logs to a file of its own: verl empties the one that it opens.
        log = metrics / f"{len(list(metrics.iterdir()))}.jsonl"
        overrides = [f"{key}={value}" for key, value in self.settings(name, **changes).items()]
        return output_of(
            [sys.executable, "-m", "verl.dph.main", *overrides],
            cwd=self.folder,
            environment=os.environ | ON_CPU | {"VERL_FILE_LOGGER_PATH": str(log)},
            timeout=TIME_LIMIT_S,
            code=code,
        )

    def train(self, name: str, **changes) -> dict[int, dict[str, float]]:
        """A run that must succeed: the metrics of all its steps."""
        self.output(name, **changes)
        return metrics_of(self.folder / name / "metrics")

    def dumped(self, name: str, kind: str, step: int) -> list[dict]:
        """The answers of a step as verl writes them; `kind` is rollouts or validation."""
        lines = (self.folder / name / kind / f"{step}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


def content_of(id: int) -> str:
    return f"w{id} w{id + 1}"


def save_prompts(path: Path, ids: range) -> None:
    pd.DataFrame(prompt_row(i, content_of(i)) for i in ids).to_parquet(path)


def responses_of_5_tokens() -> Iterator[tuple[int, str, torch.Tensor]]:
    """Whole ones, to the first prompts of save_prompts."""
    generator = torch.Generator().manual_seed(0)
    for i in range(STORE_ROWS):
        ids = torch.randint(3, len(WORDS), (5,), generator=generator)
        ids[-1] = WORDS.index("<eos>")
        yield i, content_of(i), ids


@pytest.fixture(scope="session")
def training(tmp_path_factory, word_llama) -> Training:
    return Training(tmp_path_factory.mktemp("training"), word_llama)


STEPS, SAMPLES_PER_PROMPT, SAMPLES, MINI_BATCH, VALIDATED = 2, 4, 16, 8, 4

# The real scorer grades the responses (a random model gives no answer), and each that can be judged is worth 1: a 0
# could only come from a failure or a broken reference. About a quarter cannot be scored: all of one validation prompt,
# and others by their first word.
PATCHY_REWARD = """
from verl.dph.reward import score

async def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    if "unscored" in ground_truth["gold_sql"] or int(solution_str.split()[0][1:]) % 4 == 0:
        raise ConnectionError("the scorer is down")
    graded = await score.compute_score(data_source, solution_str, ground_truth, extra_info, **kwargs)
    return graded if graded["gold_error"] else graded | {"score": 1.0, "acc": 1}
"""


@pytest.fixture(scope="session")
def masked(training, scorer_server):
    """The metrics of a run whose scorer does not score everything."""
    reward, validation = training.folder / "patchy_reward.py", training.folder / "patchy_validation.parquet"
    reward.write_text(PATCHY_REWARD)
    rows = pd.read_parquet(training.validation)
    rows.at[0, "reward_model"]["ground_truth"]["gold_sql"] = "SELECT 'unscored'"
    rows.to_parquet(validation)
    broken, rows = training.folder / "broken.parquet", pd.read_parquet(training.data)
    rows.at[1, "reward_model"]["ground_truth"]["gold_sql"] = "SELECT missing"  # in step 1: data are not shuffled
    rows.to_parquet(broken)
    return training.train(
        "masked",
        reward__custom_reward_function__path=reward,
        reward__custom_reward_function__reward_kwargs__scorer=scorer_server,
        data__train_files=broken,
        data__shuffle=False,
        algorithm__adv_estimator="grpo_passk",  # verl's own ends at a group of one, and one padding row is such a group
        data__val_files=validation,
        data__max_response_length=50,
        actor_rollout_ref__rollout__n=SAMPLES_PER_PROMPT,
        trainer__max_failed_rollouts=SAMPLES,
        trainer__total_training_steps=STEPS,
        trainer__test_freq=STEPS,
    )
