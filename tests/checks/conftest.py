"""A small run of a launch script on the CPU, whose files are all there; nvidia-smi's answers."""

import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from tests.scorer.client.conftest import fake  # noqa: F401
from tests.tiny_run import eight_rows, store_origin
from tests.training.conftest import (  # noqa: F401
    ACTOR,
    TEMPLATE,
    WORDS,
    dataset_row,
    random_model,
    run,
    run_that_can_start,
)
from verl.dph.checks import run as _  # noqa: F401  # verl settles its platform here, before a test sets VERL_PLATFORM
from verl.dph.pef.store import Store

SCRIPT = "scripts/llama/js_kl.sh"
SMALL = ("data.sft_batch_size=8", "data.train_batch_size=8", "actor_rollout_ref.actor.ppo_mini_batch_size=4")


def of_mode(mode, store=True, reference=False, form="auto"):
    found = {"sft_loss_mode": mode, "use_kl_loss": reference, "sft_loss_form": form}
    no_store = {} if store else {"data.sft_files": None, "data.sft_pt": None}
    return {ACTOR + name: value for name, value in found.items()} | no_store


@pytest.fixture(scope="session")
def run_files(tmp_path_factory, word_llama, shop_databases) -> Path:
    """A folder with model, train_wrong.parquet, train_correct.parquet and the store, of 8 prompts on shop_databases."""
    folder = tmp_path_factory.mktemp("run")
    model = folder / "model"
    word_llama(model, WORDS, template=TEMPLATE, max_position_embeddings=32768)
    for name in ("train_wrong", "train_correct"):
        pd.DataFrame([dataset_row(i) for i in range(8)]).to_parquet(folder / f"{name}.parquet")
    Store(store_origin(model), eight_rows(model)).save(str(folder / "all_right.pt"))
    shutil.copytree(shop_databases, folder / "databases")
    return folder


@pytest.fixture
def variables(run_files) -> dict[str, str]:
    """The environment of that run's script, without the machine's own settings."""
    of_run = {
        "DEVICE": "cpu",
        "MODEL_PATH": str(run_files / "model"),
        "DATA_DIR": str(run_files),
        "SFT_PT": str(run_files / "all_right.pt"),
        "VAL_FILES": "",
        "DATABASE_PATH": str(run_files / "databases"),
        "OUTPUT_DIR": str(run_files / "outputs"),
    }
    left_out = {"DPH_SCORER", "NNODES", "RAY_ADDRESS", "CUDA_VISIBLE_DEVICES", "VERL_PLATFORM", "PYTHON"}
    return {name: value for name, value in os.environ.items() if name not in left_out} | of_run
