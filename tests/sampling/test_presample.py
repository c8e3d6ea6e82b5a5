"""`verl.dph.presample` as a user runs it: verl's rollout replica (hf), the real scorer, a tiny random model."""

import asyncio
import contextlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl.checks.files import files_of
from rl.common.errors import UserError
from rl.common.fingerprint import file_sha256, model_hash, tokenizer_hash
from rl.configuration.compose import compose
from rl.data.sample_file import PendingResponse, SampleWriter, metadata_path, read_metadata
from rl.data.sample_summary import summarize
from rl.data.split import split
from tests.programs import output_of
from tests.sampling.conftest import sorted_records
from verl.dph import presample
from verl.dph.sampling import job
from verl.dph.sampling.rollout_engine import replica_count, rollout_client

N = 4
DEAD_SCORER = "http://127.0.0.1:9"
SCORER = "reward.custom_reward_function.reward_kwargs.scorer"
ENVIRONMENT = os.environ | {"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1"}


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    """As the plugin sets it for a program with device=cpu."""
    monkeypatch.setenv("VERL_PLATFORM", "cpu")


@pytest.fixture(scope="module")
def settings(model_folder, train_parquet, scorer_server):
    """All but the output."""
    return {
        "device": "cpu",
        "presample.n": N,
        "actor_rollout_ref.model.path": model_folder,
        "data.train_files": train_parquet,
        "data.max_prompt_length": 16,
        "data.max_response_length": 4,
        SCORER: scorer_server,
    }


@pytest.fixture
def overrides(settings, tmp_path):
    return settings | {"presample.output": tmp_path / "samples" / "0.jsonl"}


@pytest.fixture(scope="module")
def drawn(settings, tmp_path_factory) -> Path:
    """All samples, drawn in this process on one replica."""
    overrides = settings | {"presample.output": tmp_path_factory.mktemp("drawn") / "0.jsonl"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VERL_PLATFORM", "cpu")
        config = composed(overrides)
        assert asyncio.run(job.draw(prepared(overrides), lambda: rollout_client(config))) == 6 * N
    return overrides["presample.output"]


def words(overrides: dict) -> list[str]:
    return [f"{key}={value}" for key, value in overrides.items()]


def composed(overrides: dict):
    return compose("presample", words(overrides))


def prepared(overrides: dict):
    config = composed(overrides)
    return job.prepare(
        config,
        files=files_of(config.data.train_files),
        settings=presample.check_settings(config),
        output=Path(config.presample.output),
    )


def test_prompts_without_ground_truth_are_sampled_without_a_scorer(overrides, train_parquet, tmp_path, seeded_engine):
    """A file with id and prompt alone: the records have no verdict, which a split and other commands reject."""
    columns = [{"id": row["id"], "prompt": row["prompt"]} for row in pq.read_table(train_parquet).to_pylist()]
    prompts = tmp_path / "prompts.parquet"
    pq.write_table(pa.Table.from_pylist(columns), prompts)
    given = overrides | {"data.train_files": prompts, SCORER: DEAD_SCORER}
    with pytest.raises(UserError, match="has no column data_source, reward_model"):
        prepared(given)
    config = composed(given)
    files = {"files": [prompts], "settings": presample.check_settings(config), "output": tmp_path / "0.jsonl"}
    unjudged = job.prepare(config, **files, unjudged=True)
    drawn = asyncio.run(job.draw(unjudged, lambda: contextlib.nullcontext(seeded_engine())))
    assert drawn == 6 * N and unjudged.complete()
    records = sorted_records(tmp_path / "0.jsonl")
    assert {(record.score, record.acc, record.outcome) for record in records} == {(None, None, "unjudged")}
    assert "24 samples of 6 prompts, which were not judged" in str(summarize(tmp_path / "0.jsonl"))
    with pytest.raises(UserError, match="holds samples without verdicts, which a split counts"):
        split(prompts, tmp_path / "0.jsonl", n=N, threshold=3, keep_zero=True)
    files["files"] = [prompts, train_parquet]
    with pytest.raises(UserError, match="sample files with and without ground truth separately"):
        job.prepare(config, **files, unjudged=True)


def test_samples_are_drawn_scored_and_described(overrides, drawn, model_folder, train_parquet, tokenizer):
    path = overrides["presample.output"] = drawn
    records = sorted_records(path)
    assert [(r.id, r.sample) for r in records] == [(10 + i, s) for i in range(6) for s in range(N)]
    assert len({tuple(r.response_ids) for r in records}) > 3
    metadata = read_metadata(path)
    assert (metadata.model_hash, metadata.tokenizer_hash) == (model_hash(model_folder), tokenizer_hash(model_folder))
    assert metadata.data_files == {str(train_parquet): file_sha256(train_parquet)}
    assert (metadata.temperature, metadata.top_p, metadata.n, metadata.rows) == (1.0, 0.95, N, 6)
    for record in records:
        assert len(record.response_log_probs) == len(record.response_ids)
        assert all(-10 < log_prob < 0 for log_prob in record.response_log_probs)
        assert 1 <= len(record.response_ids) <= 4
        assert record.truncated == (tokenizer.eos_token_id not in record.response_ids)
        without_result = record.outcome in ("no_answer", "pred_error")
        assert (record.result_digest is None) == (record.result_rows is None) == without_result
    assert len({r.result_digest for r in records if r.outcome == "match"}) <= 1
    summary = summarize(path)
    assert summary.correct.size == 6 and summary.outcomes.total() == 24
    assert summary.correct.sum() == sum(r.acc for r in records)
    # One without a line is not completed by a scorer that judges otherwise.
    stored = overrides["presample.output"] = path.with_name("stored.jsonl")
    stored.write_bytes(path.read_bytes()[: -len(path.read_bytes().splitlines(True)[-1])])
    metadata_path(stored).write_text(metadata_path(path).read_text().replace(metadata.scorer, "ab" * 32))
    with pytest.raises(UserError, match="a scorer with other settings judged .verdict_sha256 was abababababab and is"):
        asyncio.run(job.draw(prepared(overrides), lambda: pytest.fail("the engine was started")))
    overrides["presample.output"] = path
    # A complete file needs neither scorer nor engine.
    overrides[SCORER] = DEAD_SCORER
    assert asyncio.run(job.draw(prepared(overrides), lambda: pytest.fail("the engine was started"))) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"+data.apply_chat_template_kwargs.enable_thinking": False},
        {"actor_rollout_ref.model.custom_chat_template": "'<user>{{ messages[0].content }}<answer>'"},
    ],
)
def test_samples_of_other_prompts_are_not_continued(overrides, change):
    """The files and the tokenizer are the same, but their prompts are not."""
    drawn = prepared(overrides)
    with SampleWriter(drawn.output, drawn.metadata) as writer:
        writer.keep(PendingResponse(id=10, sample=0, response_ids=[10, 1], seconds=0.1))
    assert not prepared(overrides).complete()
    with pytest.raises(UserError, match="holds samples of another run .chat_template {}, not {.+}"):
        prepared(overrides | change).complete()


ROLLOUT, MODEL = "actor_rollout_ref.rollout.", "actor_rollout_ref.model."


@pytest.mark.parametrize(
    ("change", "recorded"),
    [
        ({f"{ROLLOUT}max_model_len": 20}, ""),  # all that a prompt and a response may have
        ({f"{ROLLOUT}logprobs_mode": "raw_logprobs"}, ' logprobs_mode="raw_logprobs"'),
        ({f"{ROLLOUT}logprobs_mode": "raw_logprobs", "presample.log_probs": False}, ""),
        ({f"+{ROLLOUT}engine_kwargs.hf": "{a: 1, tokenizer: null}"}, ' engine_kwargs={"a": 1}'),
        ({f"+{MODEL}override_config.rope_theta": 5}, ' override_config={"rope_theta": 5}'),
        ({f"{MODEL}override_config.attn_implementation": "eager"}, ""),
    ],
)
def test_what_changes_responses_is_in_the_metadata(overrides, change, recorded):
    """Files of the defaults stay as they are, so that older ones are resumed."""
    assert prepared(overrides | change).metadata.engine == "hf float32" + recorded


@pytest.mark.timeout(600)
@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_program_goes_on_where_it_was_killed(replicas, overrides, drawn, tmp_path):
    """It ends as a run on one replica elsewhere did."""
    overrides["trainer.n_gpus_per_node"] = replicas  # two of them are in Ray
    path = overrides["presample.output"]
    path.parent.mkdir()
    metadata_path(path).write_bytes(metadata_path(drawn).read_bytes())
    there = drawn.read_bytes().splitlines(keepends=True)[:7]
    path.write_bytes(b"".join(there) + b'{"id": 15, "sam')  # as kill -9 in the middle of a line leaves it
    command = [sys.executable, "-m", "verl.dph.presample", *words(overrides)]
    said = output_of(command, environment=ENVIRONMENT, timeout=280, cwd=tmp_path)
    assert str(summarize(path)) in said and f"now: {6 * N - len(there)} samples" in said
    for one, other in zip(sorted_records(path), sorted_records(drawn), strict=True):
        assert replace(one, response_log_probs=None) == replace(other, response_log_probs=None)
        # The last digits depend on the batch.
        assert one.response_log_probs == pytest.approx(other.response_log_probs, abs=1e-5)
    assert [entry.name for entry in tmp_path.iterdir()] == ["samples"]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["0.jsonl", "0.log", "0.meta.json"]


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"actor_rollout_ref.rollout.temperature": 0}, "temperature=0 gives the same response 4 times"),
        ({"data.max_response_length": 49}, "max_position_embeddings=64 of .* is less than the longest row"),
        ({"data.max_prompt_length": 3}, r"6 of 6 prompts are longer than data.max_prompt_length=3 .* with 5\): raise"),
        ({"data.max_prompt_length": 3, "data.filter_overlong_prompts": True}, "none is left"),
        ({f"{MODEL}lora_adapter_path": "/a"}, "model.lora_adapter_path=/a would change it: set it to null"),
    ],
)
def test_wrong_input_is_named_before_anything_is_started(overrides, changes, named):
    async def run():
        await job.draw(prepared(overrides | changes), lambda: pytest.fail("the engine was started"))

    with pytest.raises(UserError, match=named):
        asyncio.run(run())


def test_replicas_are_data_parallel(overrides):
    parallel = {"trainer.nnodes": 2, "trainer.n_gpus_per_node": 8}
    parallel |= {f"{ROLLOUT}tensor_model_parallel_size": 4, f"{ROLLOUT}max_num_seqs": 10}
    assert replica_count(composed(overrides | parallel)) == 4
    assert prepared(overrides | parallel).max_in_flight == 2 * 10 * 4
    with pytest.raises(UserError, match="=3 does not divide trainer.nnodes x trainer.n_gpus_per_node=16"):
        replica_count(composed(overrides | parallel | {f"{ROLLOUT}tensor_model_parallel_size": 3}))
