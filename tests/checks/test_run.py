"""What a program rejects before Ray starts: one sentence that names the setting, file or row, and exit code 2."""

import logging
import os
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from rl.common.errors import UserError
from rl.data.split import MODEL_HASH
from tests.checks.conftest import of_mode
from tests.tiny_run import prompt_row
from tests.training.conftest import ACTOR, MODEL, SCORER, TEMPLATE, dataset_row
from verl.dph import main
from verl.dph.checks import scorer
from verl.dph.pef.store import Store
from verl.dph.sampling.job import chat_template


def test_a_run_that_can_start_passes(run):
    assert run.prepare().actor_rollout_ref.actor.sft_loss_mode == "js_low_var"


VALIDATION = "actor_rollout_ref.rollout.val_kwargs."


def test_a_batch_that_the_store_does_not_fill(run):
    assert "holds 8 rows, but data.sft_batch_size=16 are used in every" in run.rejection({"data.sft_batch_size": 16})


@pytest.mark.parametrize("key", ["train_files", "val_files"])
def test_a_prompt_that_verl_would_cut_is_rejected(run, key, caplog):
    """data.truncation=error has no effect in verl 0.9.1: its agent loop drops the first tokens."""
    longer = Path(run.data).with_name("longer.parquet")
    rows = [prompt_row(100 + i, " ".join(["w1"] * (5 if i == 3 else 2))) for i in range(9)]
    pd.DataFrame(rows).to_parquet(longer)
    changes = {f"data.{key}": str(longer), "data.max_prompt_length": 4}
    assert run.rejection(changes).startswith(
        f"data.{key}: 1 of 9 prompts are longer than data.max_prompt_length=4 tokens (the longest is id 103 with 5): "
        "raise it, or set data.filter_overlong_prompts=True to leave them out."
    )
    changes["data.filter_overlong_prompts"] = True
    with caplog.at_level(logging.WARNING):
        run.prepare(changes)
    assert "1 of 9 prompts are longer" in caplog.text and "are left out" in caplog.text


def test_training_prompts_with_a_number_of_rollouts_of_their_own(run):
    """verl samples such a row as often as it says; in validation nothing needs groups of one size."""
    other = Path(run.data).with_name("other.parquet")
    pd.DataFrame([dataset_row(100 + i) | {"__rollout_n__": 1 + i % 2} for i in range(8)]).to_parquet(other)
    assert run.rejection({"data.train_files": [run.data, str(other)]}).startswith(
        f"{other} of data.train_files has a column __rollout_n__, and training needs groups of rollout.n=4 responses: "
    )
    run.prepare({"data.val_files": str(other)})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (of_mode("js", store=False, reference=True), "data.sft_files is not set"),
        ({"data.sft_pt": None}, "data.sft_pt is not set"),
        ({"data.sft_pt": "/nowhere/pef.pt"}, "run dph store, which writes"),
        ({"data.val_files": "/tmp"}, "data.val_files=/tmp is a folder: name a file"),
        (
            {"trainer.test_freq": 2, f"{VALIDATION}do_sample": False, f"{VALIDATION}temperature": 0.6},
            "val_kwargs.do_sample=False would sample all the same, at val_kwargs.temperature=0.6",
        ),
        ({SCORER: "http://127.0.0.1:9"}, "127.0.0.1:9.*`dph scorer --database-path DIR`"),
        ({"actor_rollout_ref.rollout.temperature": 0.6}, "made with another temperature"),
    ],
)
def test_a_file_store_or_scorer_that_does_not_serve_is_named(run, monkeypatch, changes, sentence):
    monkeypatch.setattr(scorer, "SCORER_WAIT_S", 0.2)
    message = run.rejection(changes)
    assert re.search(sentence, message) and "\n" not in message


def test_without_validation_files_nothing_is_validated(run):
    config = run.prepare({"data.val_files": [], "trainer.test_freq": 5})
    assert (config.trainer.test_freq, config.trainer.val_before_train) == (-1, False)
    assert config.data.val_files == run.data


def test_a_run_that_only_validates_trains_nothing(run):
    """verl reads val_only only if val_before_train is true, which it is not in the experiments of the paper."""
    only = {"trainer.val_only": True, "trainer.val_before_train": False}
    assert run.prepare(only).trainer.val_before_train
    message = run.rejection(only | {"data.val_files": None})
    assert message.startswith("trainer.val_only=True validates, and data.val_files is not set: name the files")


@pytest.mark.parametrize(("mode", "warned"), [("forward", False), ("js_low_var", True)])
def test_a_divergence_on_responses_from_elsewhere_is_warned_of(run, caplog, mode, warned):
    Store(run.store_origin | {"responses": "0" * 64}, run.store_rows).save(run.store)
    run.prepare(of_mode(mode))
    assert (f"sft_loss_mode={mode} as set here is not a divergence on them" in caplog.text) == warned


@pytest.mark.parametrize(
    ("origin", "changes", "what"),
    [
        ({"model_hash": "0" * 64}, {}, "model"),
        ({"tokenizer_hash": "0" * 64}, {}, "tokenizer"),
        ({"config_hash": "0" * 64}, {}, "config.json or generation_config.json (000000000000"),
        ({"engine_dtype": "bfloat16"}, {}, "engine dtype (bfloat16"),
        ({}, {f"{MODEL}custom_chat_template": "{{ messages }}"}, "chat template"),
        ({"override_config": '{"rms_norm_eps": 0.1}'}, {}, 'config.json (model.override_config) ({"rms_norm_eps"'),
    ],
)
def test_a_store_of_another_origin_is_rejected(run, origin, changes, what):
    Store(run.store_origin | origin, run.store_rows).save(run.store)
    assert f"was made with another {what}" in run.rejection(changes)
    Store(run.store_origin, run.store_rows).save(run.store)
    run.prepare()


@pytest.mark.parametrize("source", [{}, {"responses": "0" * 64}])
def test_a_store_of_prompts_that_were_prepared_again_is_rejected(run, source, caplog):
    """The ids are the same; the run rehearsed the old texts."""
    Store(run.store_origin | source, run.store_rows).save(run.store)
    run.prepare({"data.sft_batch_size": 4} | of_mode("forward"))
    pd.DataFrame([prompt_row(i, f"w{i} w{i}") for i in range(8)]).to_parquet(run.data)
    message = run.rejection({"data.sft_batch_size": 4} | of_mode("forward"))
    assert f"has another prompt with id 0 than {run.data} row 0: if the prompts were prepared again, sample" in message
    if not source:  # The store is not complete for the run that writes it either.
        writes = {f"{ACTOR}generate_sft": True, "data.sft_wrong_files": run.data}
        assert f"has another prompt with id 0 than {run.data} row 0" in run.rejection(of_mode("none") | writes)
    # With a template that writes the date, the tokens say nothing.
    dated = {"data.sft_batch_size": 4, f"{MODEL}custom_chat_template": TEMPLATE + "{{ strftime_now('%Y') }}"}
    origin = run.store_origin | source | {"chat_template": chat_template(run.config(dated))}
    Store(origin, run.store_rows).save(run.store)
    run.prepare(dated | of_mode("forward"))
    assert "whether" in caplog.text and "is of this run's prompts is known by their ids alone" in caplog.text


def test_one_changed_prompt_of_many_is_found(run):
    count, changed = 130, 129
    rows = [replace(run.store_rows[0], id=i) for i in range(count)]
    Store(run.store_origin, rows).save(run.store)
    pd.DataFrame([prompt_row(i, "w1" if i == changed else "w0") for i in range(count)]).to_parquet(run.data)
    assert f"another prompt with id {changed} than {run.data} row {changed}:" in run.rejection()


def test_prompts_that_a_store_lost_are_counted(run, caplog):
    with caplog.at_level(logging.WARNING):
        run.prepare()
        assert "no row" not in caplog.text
        Store(run.store_origin, run.store_rows[:7]).save(run.store)
        run.prepare({"data.sft_batch_size": 4})
    assert "1 prompt of data.sft_files has no row in " in caplog.text and "is not rehearsed" in caplog.text
    assert "nor explored" not in caplog.text and "run dph store again" in caplog.text
    explored = Path(run.data).with_name("explored.parquet")
    pd.DataFrame([dataset_row(7)] * 8).assign(id=range(8, 16)).to_parquet(explored)
    run.prepare({"data.sft_batch_size": 4, "data.train_files": str(explored)})
    assert "and is neither rehearsed nor explored" in caplog.text


def test_a_store_of_another_split_is_rejected(run):
    rows = [*run.store_rows[:7], replace(run.store_rows[7], id=77)]
    Store(run.store_origin, rows).save(run.store)
    message = run.rejection()
    assert "pef.pt has 1 row (the first has id 77) whose prompts are not in" in message and "again for this" in message
    Store(run.store_origin | {"responses": "0" * 64}, rows).save(run.store)
    run.prepare()  # responses from elsewhere name their prompts
    explored = Path(run.data).with_name("explored.parquet")
    pd.DataFrame([dataset_row(7)] * 8).assign(id=range(77, 85)).to_parquet(explored)
    solved = {"samples": "0" * 64, "coverage": "solved", "responses_per_prompt": "all"}
    Store(run.store_origin | solved, rows).save(run.store)
    assert "has id 77" in run.rejection()
    run.prepare({"data.train_files": str(explored)})


def split_of(path: str, model: str) -> None:
    """Let a parquet say that it is a part of a split by this model's samples."""
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata((table.schema.metadata or {}) | {MODEL_HASH: model}), path)


def test_a_split_by_another_model_is_rejected_where_it_is_used(run, tmp_path):
    """Samples and split with one model, store and training with another: prompts that it does not master count as its
    own, without a word."""
    writes = of_mode("none") | {f"{ACTOR}generate_sft": True, "data.sft_wrong_files": run.data}
    writes |= {"data.sft_pt": str(tmp_path / "new.pt")}
    split_of(run.data, run.store_origin["model_hash"])
    run.prepare()
    run.prepare(writes)
    split_of(run.data, "0" * 64)
    sentence = f"data.sft_files={run.data} was split by the samples of another model (model_hash 000000000000, this run"
    assert run.rejection().startswith(sentence) and run.rejection(writes).startswith(sentence)
    run.prepare(of_mode("none", store=False))  # prompts without D_pef


ZOO = {"db_id": "zoo/zoo.sqlite", "gold_sql": "SELECT 1", "cmp_method": "bird"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data_source": "poetry"}, "data.parquet row 3: There is no reward for data_source 'poetry'"),
        ({"reward_model": {"style": "rule", "ground_truth": ZOO}}, "data.parquet row 3: .*zoo/zoo.sqlite"),
    ],
)
def test_a_row_that_cannot_be_trained_on_is_named(run, changes, sentence):
    pd.DataFrame([dataset_row(i) | (changes if i == 3 else {}) for i in range(8)]).to_parquet(run.data)
    assert re.search(sentence, run.rejection())


def test_an_unregistered_plugin_is_rejected(run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("verl.dph.plugin.registered", False)
        assert "verl.plugins" in run.rejection()
    for policy in ("auto", "other, DPH"):
        monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", policy)
        run.prepare()
    for policy in ("none", "other"):
        monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", policy)
        assert f"VERL_USE_EXTERNAL_PLUGINS={policy} in the environment keeps verl from loading" in run.rejection()


@pytest.mark.parametrize("writes_store", [False, True])
def test_a_second_run_in_the_folder_of_one_under_way_is_refused(run, monkeypatch, tmp_path, writes_store):
    """While the first would train. Locks of one process on one file exclude each other as well."""
    changes = {}
    if writes_store:
        changes |= {f"{ACTOR}generate_sft": True, f"{ACTOR}sft_loss_mode": "none", "data.sft_wrong_files": run.data}
        changes |= {"data.sft_pt": str(tmp_path / "new.pt")}
    second = []

    def train(config, **kwargs):
        with pytest.raises(UserError) as refused:
            main.main(run.config(changes))
        second.append(str(refused.value))
        raise UserError("That was the first.")

    monkeypatch.setattr(main.main_ppo, "run_ppo", train)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"That was the first\."):
        main.main(run.config(changes))
    folder = tmp_path / "new.run" if writes_store else run.folder
    [said] = second
    assert said.startswith(f"A run is under way in {folder} (process {os.getpid()} on ")
    assert [path.name for path in folder.iterdir()] == ["log.txt"]
