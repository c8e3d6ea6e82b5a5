"""What training refuses before Ray starts: one sentence that names the setting, file or row, and exit code 2."""

import os
import subprocess
import sys

import pandas as pd
import pytest
import torch
from hydra import compose, initialize_config_dir

from verl.dph import main
from verl.dph.cli import CONFIG_DIR
from verl.dph.errors import UserError
from verl.dph.fingerprint import model_hash, tokenizer_hash
from verl.dph.store import Row, Store

ACTOR = "actor_rollout_ref.actor."


def dataset_row(i, **changes):
    truth = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT name FROM item", "cmp_method": "bird"}
    row = {
        "data_source": "sql",
        "prompt": [{"role": "user", "content": f"w{i}"}],
        "reward_model": {"style": "rule", "ground_truth": truth},
        "id": i,
    }
    return row | changes


@pytest.fixture
def run(random_model, scorer_server, tmp_path, monkeypatch):
    """A run that would start, as overrides by name; `prepare(**changes)` checks it with some of them changed."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    data = tmp_path / "data.parquet"
    pd.DataFrame([dataset_row(i) for i in range(8)]).to_parquet(data)
    store = tmp_path / "pef.pt"
    origin = {
        "model": random_model,
        "model_hash": model_hash(random_model),
        "tokenizer_hash": tokenizer_hash(random_model),
        "temperature": 1.0,
    }
    rows = [Row(i, torch.tensor([3, 4]), torch.tensor([5, 1]), torch.tensor([-1.0, -2.0])) for i in range(8)]
    Store(origin, rows).save(str(store))
    settings = {
        "device": "cpu",
        "actor_rollout_ref.model.path": random_model,
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
        "reward.custom_reward_function.reward_kwargs.scorer": scorer_server,
    }

    class Run:
        folder, files, model, overrides = tmp_path, {"data": data, "store": store}, random_model, settings
        store_origin, store_rows = origin, rows

        @staticmethod
        def prepare(**changes):
            values = settings | {name.replace("__", "."): value for name, value in changes.items()}
            with initialize_config_dir(str(CONFIG_DIR), version_base=None):
                config = compose("dph_trainer", [f"{name}={value}" for name, value in values.items()])
            main.prepare(config)
            return config

    return Run


def test_a_run_that_can_start_passes(run):
    config = run.prepare()
    assert config.actor_rollout_ref.actor.sft_loss_mode == "js_low_var"


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        (f"{ACTOR}sft_loss_mode", "jss", "sft_loss_mode='jss' is unknown: use one of none, forward, js_low_var, alpha"),
        (f"{ACTOR}sft_loss_mode", "reverse_kl", "reverse_kl needs the policy form with a reference model"),
        (f"{ACTOR}sft_loss_normalization", "both", "sft_loss_normalization='both' is unknown"),
        (f"{ACTOR}sft_kl_estimator", "k2", "sft_kl_estimator='k2' is unknown"),
        (f"{ACTOR}sft_loss_coeff", -0.1, "sft_loss_coeff=-0.1 is negative"),
        (f"{ACTOR}loss_agg_mode", "seq-mean-token-sum", "loss_agg_mode=seq-mean-token-sum does not go with"),
        (f"{ACTOR}shuffle", True, "actor.shuffle=True would break"),
        ("data.sft_batch_size", 7, "sft_batch_size=7 does not divide over 2 mini-batches x 1 data-parallel ranks"),
        ("data.sft_batch_size", 16, "holds 8 rows, but data.sft_batch_size=16"),
        ("data.sft_pt", "null", "data.sft_pt is not set"),
        ("data.sft_pt", "/nowhere/pef.pt", "get_correct_data_tensor.sh, which writes it"),
        ("data.train_files", "/nowhere/a.parquet", "data.train_files=/nowhere/a.parquet does not exist"),
        ("actor_rollout_ref.model.path", "/nowhere/model", "/nowhere/model holds no config.json"),
        ("actor_rollout_ref.rollout.temperature", 0.6, "made with another temperature"),
        ("trainer.v1.trainer_mode", "colocate_async", "trainer_mode=colocate_async is not supported"),
        ("trainer.device", "cuda", "trainer.device=cuda does not go with VERL_PLATFORM='cpu'"),
    ],
)
def test_a_wrong_setting_is_named(run, setting, value, sentence):
    with pytest.raises(UserError) as error:
        run.prepare(**{setting.replace(".", "__"): value})
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_alpha_must_lie_between_the_two_kl_divergences(run):
    changes = {f"{ACTOR}sft_loss_mode".replace(".", "__"): "alpha"}
    run.prepare(**changes)
    with pytest.raises(UserError, match="alpha_coeff=1.0 must lie strictly between 0 and 1"):
        run.prepare(**changes, **{f"{ACTOR}alpha_coeff".replace(".", "__"): 1.0})


@pytest.mark.parametrize("name", ["model_hash", "tokenizer_hash"])
def test_a_store_of_another_model_is_refused(run, name):
    Store(run.store_origin | {name: "0" * 64}, run.store_rows).save(str(run.files["store"]))
    with pytest.raises(UserError, match=f"another {name.removesuffix('_hash')}"):
        run.prepare()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt": "no list"}, "data.parquet row 3: prompt"),
        ({"reward_model": {"style": "rule", "ground_truth": {"db_id": "shop/shop.sqlite"}}}, "data.parquet row 3"),
        ({"data_source": "poetry"}, "data.parquet row 3: There is no reward for data_source 'poetry'"),
        ({"id": 0}, "id 0 stands also in"),
    ],
)
def test_a_malformed_row_is_named(run, changes, sentence):
    rows = [dataset_row(i) for i in range(8)]
    rows[3] |= changes
    if isinstance(changes.get("prompt"), str):
        rows = [row | {"prompt": changes["prompt"]} if i >= 3 else row for i, row in enumerate(rows)]
        rows = rows[3:]
        sentence = "data.parquet row 0: prompt"
    pd.DataFrame(rows).to_parquet(run.files["data"])
    with pytest.raises(UserError) as error:
        run.prepare()
    assert sentence in str(error.value)


def test_a_database_that_the_scorer_lacks_is_named_before_training(run):
    truth = {"db_id": "zoo/zoo.sqlite", "gold_sql": "SELECT 1", "cmp_method": "bird"}
    rows = [dataset_row(i) for i in range(7)] + [dataset_row(7, reward_model={"style": "rule", "ground_truth": truth})]
    pd.DataFrame(rows).to_parquet(run.files["data"])
    with pytest.raises(UserError, match="data.parquet row 7: .*zoo/zoo.sqlite"):
        run.prepare()


def test_a_scorer_that_is_down_is_named_before_training(run, monkeypatch):
    monkeypatch.setattr("verl.dph.preflight.SCORER_WAIT_S", 0.2)
    with pytest.raises(UserError, match="127.0.0.1:9.*scorer_server_without_ray.py"):
        run.prepare(reward__custom_reward_function__reward_kwargs__scorer="http://127.0.0.1:9")


def test_an_unregistered_plugin_is_refused(run, monkeypatch):
    monkeypatch.setattr("verl.dph.plugin.registered", False)
    with pytest.raises(UserError, match="verl.plugins"):
        run.prepare()


def test_the_program_ends_with_the_sentence_and_code_2(run):
    """Through the real command line; nothing is started, so nothing can be left."""
    overrides = [f"{name}={value}" for name, value in (run.overrides | {f"{ACTOR}sft_loss_mode": "jss"}).items()]
    finished = subprocess.run(
        [sys.executable, "-m", "verl.dph.main", *overrides],
        env=os.environ | {"VERL_PLATFORM": "cpu"},
        cwd=run.folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 2
    assert finished.stderr.strip().splitlines()[-1].startswith("Error: actor.sft_loss_mode='jss' is unknown")
    assert "Traceback" not in finished.stderr
