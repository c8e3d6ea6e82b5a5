"""Each step of the road finds what the one before it left, and each wrong turn gives a sentence that names the way."""

import json
import re

import pyarrow.parquet as pq
import pytest

from tests.road.conftest import EXPLORED, MASTERED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_questions_become_prompts(prepared):
    assert "mine/elsewhere" in prepared.output["no databases"]
    assert pq.read_metadata(prepared.mine / "train.parquet").num_rows == MASTERED + EXPLORED


def test_gold_queries_are_audited(audited):
    assert "--database-path" in audited.output["audit of other databases"]
    assert not list(audited.folder.glob("gold_audit*"))
    assert [path.name for path in audited.mine.iterdir() if "audit" in path.name]


def test_prompts_are_sampled(sampled):
    assert (
        "the model folder /no/model does not exist" in sampled.output["no model"]
        and "MODEL_PATH" in sampled.output["no model"]
    )
    assert "Pass@8" in sampled.output["presample"]
    assert sampled.output["presample"].endswith("Next: dph split --experiment mine/experiment/mine.yaml\n")
    assert len((sampled.mine / "data" / "generate_data" / "0.jsonl").read_text().splitlines()) == 8 * (
        MASTERED + EXPLORED
    )


def test_prompts_are_split(split):
    assert "D_exp" in split.output["no D_exp"] and "--threshold" in split.output["no D_exp"]
    parts = [pq.read_metadata(split.mine / "data" / f"train_{part}.parquet").num_rows for part in ("correct", "wrong")]
    assert parts[0] >= MASTERED and sum(parts) == MASTERED + EXPLORED


def test_a_store_is_written(stored):
    assert "run dph store" in stored.output["no store"]
    assert (stored.mine / "data" / "pef.pt").is_file()


def test_all_wrong_values_are_named_at_once(trained):
    said = trained.output["wrong values"]
    assert re.search("sft_loss_mode='jss'(.*\n)+.*total_training_steps='two'", said), said


def test_a_run_ends_with_a_summary(trained):
    run = trained.folder / "outputs" / "mine" / "first"
    assert (run / "latest_checkpointed_iteration.txt").read_text() == "2"
    assert str(run / "global_step_2").removeprefix(f"{trained.folder}/") in trained.output["train"][-1500:]
    assert trained.output["train"].splitlines()[-1].startswith("Next: ")


def test_the_report_compares_with_the_base(evaluated):
    assert "second" in evaluated.output["no run"]
    assert "\nSampling base, base_again: mine.jsonl, mine.greedy.jsonl" in evaluated.output["evaluate"]
    report = json.loads((evaluated.folder / "outputs" / "mine" / "eval" / "report.json").read_text())
    assert report["base"]["mine"]["prompts"] == report["dph_js"]["mine"]["prompts"] == MASTERED + EXPLORED
    assert (evaluated.folder / "outputs" / "mine" / "eval" / "report.html").is_file()


def test_nothing_is_written_elsewhere(evaluated):
    names = {path.name for path in evaluated.folder.iterdir()}
    assert names == {"address", "data", "mine", "model", "outputs", "rl", "scripts"}
