"""The sampler with the real scorer server; the engine is in this process and draws as its seeds say."""

import dataclasses

import pytest
from verl.workers.rollout.replica import TokenOutput

from rl.common.errors import UserError
from rl.scorer.client.scorer_client import ScorerUnavailable
from tests.sampling.conftest import sorted_records
from verl.dph.sampling.sampler import sample_seed

END = 1

EXPECTED = {  # against gold SELECT name FROM item
    10: (1.0, "match"),
    11: (0.4, "partial"),  # one of one gold columns among two predicted ones: 0.8 / 2
    12: (0.0, "mismatch"),
    13: (0.0, "mismatch"),  # some of the names: the set of the column's values differs
    14: (0.0, "pred_error"),
    15: (0.0, "no_answer"),
}


def test_every_sample_once_and_graded(tmp_path, run, tokenizer, prompts, seeded_engine):
    drawn = run(tmp_path / "0.jsonl", seeded_engine())
    records = sorted_records(tmp_path / "0.jsonl")
    assert [(r.id, r.sample) for r in records] == [(10 + i, s) for i in range(6) for s in range(4)]
    assert drawn == 24
    for record in records:
        score, outcome = EXPECTED[record.response_ids[0]]
        assert (record.score, record.acc, record.outcome) == (pytest.approx(score), int(score == 1), outcome)
        assert record.truncated == (END not in record.response_ids)
        assert record.output == tokenizer.decode(record.response_ids, skip_special_tokens=True)
        assert record.input == tokenizer.decode(prompts[record.id - 10].token_ids.tolist())
    assert {r.outcome for r in records} > {"match", "mismatch"}
    assert {r.truncated for r in records} == {True, False}


def test_records_do_not_depend_on_concurrency(tmp_path, run, seeded_engine):
    run(tmp_path / "a.jsonl", seeded_engine(), max_in_flight=1)
    engine = seeded_engine(delay_s=0.01)
    run(tmp_path / "b.jsonl", engine, max_in_flight=5)
    assert engine.most_in_flight == 5
    assert sorted_records(tmp_path / "a.jsonl") == sorted_records(tmp_path / "b.jsonl")


def test_a_dead_scorer_stops_the_run_and_loses_no_answer(tmp_path, run, seeded_engine):
    """No sample gets a 0, and what was drawn is not drawn again."""
    path, first, second = tmp_path / "0.jsonl", seeded_engine(), seeded_engine()
    with pytest.raises(ScorerUnavailable, match="http://127.0.0.1:9"):
        run(path, first, scorer="http://127.0.0.1:9")
    assert path.read_bytes() == b"" and first.answered
    drawn = run(path, second)
    assert drawn == len(second.answered)
    seeds = {sample_seed(7, 10 + row, number) for row in range(6) for number in range(4)}
    assert sorted(first.answered + second.answered) == sorted(seeds)
    run(tmp_path / "whole.jsonl", seeded_engine())
    assert sorted_records(path) == sorted_records(tmp_path / "whole.jsonl")


def test_requests_follow_the_settings(tmp_path, run, prompts, seeded_engine, sampling_settings):
    engine = seeded_engine()
    run(tmp_path / "0.jsonl", engine)
    request_id, prompt_ids, params = engine.requests[5]
    assert request_id == "11" and prompt_ids == prompts[1].token_ids.tolist()
    assert params == {
        "temperature": 1.0,
        "top_p": 0.95,
        "top_k": -1,
        "repetition_penalty": 1.0,
        "max_tokens": 3,
        "seed": sample_seed(7, 11, 1),
        "logprobs": True,
    }
    for record in sorted_records(tmp_path / "0.jsonl"):
        assert record.response_log_probs == [-0.123457 * (1 + place) for place in range(len(record.response_ids))]

    engine = seeded_engine()
    greedy = dataclasses.replace(sampling_settings, n=1, temperature=0.0, top_k=20, log_probs=False)
    run(tmp_path / "greedy.jsonl", engine, greedy)
    assert len(engine.requests) == 6
    assert engine.requests[0][2].items() >= {"temperature": 0.0, "top_p": 1.0, "top_k": -1, "logprobs": False}.items()
    assert all(record.response_log_probs is None for record in sorted_records(tmp_path / "greedy.jsonl"))


@pytest.mark.parametrize(
    "output, error, sentence",
    [
        (
            {"token_ids": [10, END], "stop_reason": "completed"},
            UserError,
            "gave 0 log-probs for a response of 2 tokens: set presample.log_probs=False",
        ),
        ({"token_ids": [], "stop_reason": "aborted"}, RuntimeError, "aborted sample"),
    ],
)
def test_an_output_that_is_not_a_sample_is_not_recorded(tmp_path, run, seeded_engine, output, error, sentence):
    class FaultyEngine(seeded_engine):
        async def generate(self, *arguments, **keywords):
            return TokenOutput(**output)

    with pytest.raises(error, match=sentence):
        run(tmp_path / "0.jsonl", FaultyEngine())
    assert list(tmp_path.iterdir()) == []


def test_a_seed_depends_on_the_run_the_prompt_and_the_sample_alone():
    # the first 8 bytes of `printf 7/11/1 | sha256sum`, shifted right by one bit
    assert sample_seed(7, 11, 1) == 0xE28F23E73AE031A2 >> 1
