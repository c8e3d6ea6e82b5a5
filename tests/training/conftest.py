"""A tiny random causal LM in a Hugging Face folder, made from a seed, and a run on it that can start."""

import copy
import shutil

import pandas as pd
import pytest
from omegaconf import OmegaConf

from rl.common.errors import UserError
from rl.configuration.compose import compose
from tests.tiny_run import eight_rows, prepare, prompt_row, store_origin
from verl.dph.pef.store import Store

ACTOR, MODEL = "actor_rollout_ref.actor.", "actor_rollout_ref.model."
ETA, SCORER = f"{ACTOR}sft_loss_control.", "reward.custom_reward_function.reward_kwargs.scorer"

WORDS = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(61))]
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"


@pytest.fixture(scope="session")
def random_model(tmp_path_factory, word_llama):
    """Folder of a Llama with 64 words, 2 layers and hidden size 32, float32, random weights of a fixed seed."""
    folder = tmp_path_factory.mktemp("random_model")
    size = {"max_position_embeddings": 1024, "tie_word_embeddings": True, "initializer_range": 0.3}
    word_llama(folder, WORDS, template=TEMPLATE, **size)
    return str(folder)


def dataset_row(i, **changes):
    return prompt_row(i, f"w{i}") | changes


@pytest.fixture(scope="session")
def run_that_can_start(random_model, scorer_server, tmp_path_factory):
    """(its composed settings, the store's origin and rows); the files are in the folder of data.sft_pt."""
    folder = tmp_path_factory.mktemp("run")
    data, store = folder / "data.parquet", folder / "pef.pt"
    pd.DataFrame([dataset_row(i) for i in range(8)]).to_parquet(data)
    origin, rows = store_origin(random_model), eight_rows(random_model)
    Store(origin, rows).save(str(store))
    settings = {
        "device": "cpu",
        f"{MODEL}path": random_model,
        "data.train_files": data,
        "data.val_files": data,
        "data.sft_files": data,
        "data.sft_pt": store,
        "data.sft_batch_size": 8,
        "data.train_batch_size": 8,
        f"{ACTOR}ppo_mini_batch_size": 4,
        f"{ACTOR}use_dynamic_bsz": True,
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz": True,
        "actor_rollout_ref.rollout.n": 4,
        f"{ACTOR}sft_loss_mode": "js_low_var",
        "algorithm.adv_estimator": "grpo",
        SCORER: scorer_server,
    }
    return compose("dph_trainer", [f"{name}={value}" for name, value in settings.items()]), origin, rows


@pytest.fixture
def run(run_that_can_start, tmp_path, monkeypatch):
    """That run with files of its own; `prepare(changes)` checks it with some settings changed."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    composed, origin, rows = run_that_can_start
    base = copy.deepcopy(composed)
    copies = {key: shutil.copy(base.data[key], tmp_path) for key in ("sft_files", "sft_pt")}
    base.trainer.default_local_dir = str(tmp_path / "run")
    base.data.update(copies | {"train_files": copies["sft_files"], "val_files": copies["sft_files"]})

    class Run:
        folder, data, store = tmp_path / "run", copies["sft_files"], copies["sft_pt"]
        store_origin, store_rows = origin, rows
        model = base.actor_rollout_ref.model.path

        @staticmethod
        def config(changes=()):
            config = copy.deepcopy(base)
            for name, value in dict(changes).items():
                OmegaConf.update(config, name.removeprefix("+"), value, force_add=name.startswith("+"))
            return config

        @classmethod
        def prepare(cls, changes=()):
            config = cls.config(changes)
            prepare(config)
            return config

        @classmethod
        def rejection(cls, changes=()) -> str:
            with pytest.raises(UserError) as error:
                cls.prepare(changes)
            return str(error.value)

    return Run
