"""The sampler with the real scorer server; the engine is in this process and draws as its seeds say."""

import asyncio
import dataclasses
import multiprocessing
import os
import random
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verl.workers.rollout.replica import TokenOutput

from verl.dph.prompts import read_rows, tokenize
from verl.dph.records import SampleMetadata, SampleWriter, read_samples
from verl.dph.reward.client import ScorerClient, ScorerUnavailable
from verl.dph.sampler import SamplingSettings, sample, sample_seed

SETTINGS = SamplingSettings(n=4, temperature=1.0, top_p=0.95, top_k=-1, max_response_length=3, seed=7)
FIRST_ANSWER, LAST_ANSWER = 10, 15  # ids of the tokens that are whole answers (conftest)
END = 1


class SeededEngine:
    """One random answer token, then an end token (or, for one seed in five, three answers and none)."""

    def __init__(self, delay_s: float = 0.0, dies_after: int | None = None):
        self.delay_s = delay_s
        self.dies_after = dies_after
        self.requests = []
        self.in_flight = self.most_in_flight = 0

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        self.requests.append((request_id, prompt_ids, dict(sampling_params)))
        if self.dies_after is not None and len(self.requests) > self.dies_after:
            raise ConnectionError("the engine died")
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.delay_s)
        self.in_flight -= 1
        draw = random.Random(sampling_params["seed"])
        answer = draw.randint(FIRST_ANSWER, LAST_ANSWER)
        token_ids = [answer] * 3 if draw.random() < 0.2 else [answer, END]
        return TokenOutput(token_ids=token_ids, stop_reason="completed")


@pytest.fixture
def prompts(train_parquet, builder):
    return list(tokenize(read_rows([train_parquet]), builder))


@pytest.fixture
def run(prompts, tokenizer, scorer_server):
    """Samples into a file, with the given engine."""

    def run(path, engine, settings=SETTINGS, scorer=scorer_server, max_in_flight=8):
        metadata = SampleMetadata("m", "mh", "th", 1.0, 0.95, -1, settings.n, 7, 3, {"f": "h"}, len(prompts))

        async def scenario():
            async with ScorerClient(scorer, retries=1, first_backoff_s=0.01) as client:
                with SampleWriter(path, metadata) as writer:
                    return await sample(
                        engine,
                        tokenizer,
                        prompts,
                        settings=settings,
                        stop_ids=frozenset({END}),
                        scorer=client,
                        writer=writer,
                        max_in_flight=max_in_flight,
                    )

        return asyncio.run(scenario())

    return run


def sorted_records(path):
    return sorted(read_samples(path), key=lambda record: (record.id, record.sample))


EXPECTED = {  # against gold SELECT name FROM item
    10: (1.0, "match"),
    11: (0.4, "partial"),  # one of one gold columns among two predicted ones: 0.8 / 2
    12: (0.0, "mismatch"),
    13: (0.0, "mismatch"),  # some of the names: the set of the column's values differs
    14: (0.0, "pred_error"),
    15: (0.0, "no_answer"),
}


def test_every_sample_once_and_graded(tmp_path, run, tokenizer, prompts):
    drawn = run(tmp_path / "0.jsonl", SeededEngine())
    records = sorted_records(tmp_path / "0.jsonl")
    assert [(r.id, r.sample) for r in records] == [(10 + i, s) for i in range(6) for s in range(4)]
    assert (drawn.samples, drawn.tokens) == (24, sum(len(r.response_ids) for r in records))
    for record in records:
        score, outcome = EXPECTED[record.response_ids[0]]
        assert (record.score, record.acc, record.outcome) == (pytest.approx(score), int(score == 1), outcome)
        assert record.truncated == (END not in record.response_ids)
        assert record.output == tokenizer.decode(record.response_ids, skip_special_tokens=True)
        assert record.input == tokenizer.decode(prompts[record.id - 10].token_ids.tolist())
    assert {r.outcome for r in records} > {"match", "mismatch"}
    assert {r.truncated for r in records} == {True, False}


def test_records_do_not_depend_on_concurrency(tmp_path, run):
    run(tmp_path / "a.jsonl", SeededEngine(), max_in_flight=1)
    run(tmp_path / "b.jsonl", SeededEngine(delay_s=0.002), max_in_flight=24)
    assert sorted_records(tmp_path / "a.jsonl") == sorted_records(tmp_path / "b.jsonl")


def test_a_run_that_was_interrupted_ends_as_an_undisturbed_one(tmp_path, run):
    run(tmp_path / "whole.jsonl", SeededEngine())
    path = tmp_path / "0.jsonl"
    with pytest.raises(ConnectionError):
        run(path, SeededEngine(dies_after=9), max_in_flight=2)
    before = path.read_bytes()
    held = before.count(b"\n")
    assert 0 < held < 24
    path.write_bytes(before + b'{"id": 15, "sam')  # as kill -9 in the middle of a write leaves it
    engine = SeededEngine()
    run(path, engine)
    assert len(engine.requests) == 24 - held
    assert path.read_bytes().startswith(before)
    assert sorted_records(path) == sorted_records(tmp_path / "whole.jsonl")
    idle = SeededEngine()
    assert run(path, idle).samples == 0 and idle.requests == []


def test_kill_9_loses_nothing(tmp_path, run):
    path = tmp_path / "0.jsonl"
    child = multiprocessing.get_context("fork").Process(target=run, args=(path, SeededEngine(delay_s=0.05), SETTINGS))
    child.start()
    deadline = time.monotonic() + 30
    while not path.exists() or path.read_bytes().count(b"\n") < 5:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert path.read_bytes().count(b"\n") < 24
    run(path, SeededEngine())
    run(tmp_path / "whole.jsonl", SeededEngine())
    assert sorted_records(path) == sorted_records(tmp_path / "whole.jsonl")


def test_requests_in_flight_are_bounded(tmp_path, run):
    engine = SeededEngine(delay_s=0.01)
    run(tmp_path / "0.jsonl", engine, max_in_flight=5)
    assert engine.most_in_flight == 5


def test_the_engine_goes_on_while_answers_wait_for_their_score(tmp_path, tokenizer, prompts):
    metadata = SampleMetadata("m", "mh", "th", 1.0, 0.95, -1, 4, 7, 3, {"f": "h"}, len(prompts))
    engine = SeededEngine()

    class HeldScorer:
        async def score(self, response, question):
            await asyncio.Event().wait()

    async def scenario(writer):
        drawing = sample(
            engine,
            tokenizer,
            prompts,
            settings=SETTINGS,
            stop_ids=frozenset({END}),
            scorer=HeldScorer(),
            writer=writer,
            max_in_flight=4,
        )
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(drawing, timeout=0.3)

    with SampleWriter(tmp_path / "0.jsonl", metadata) as writer:
        asyncio.run(scenario(writer))
    # 4 answers are being scored, 4 wait in the queue, and 4 hold their place until there is room
    assert len(engine.requests) == 12


def test_a_dead_scorer_stops_the_run_and_no_sample_gets_a_0(tmp_path, run):
    with pytest.raises(ScorerUnavailable, match="http://127.0.0.1:9"):
        run(tmp_path / "0.jsonl", SeededEngine(), scorer="http://127.0.0.1:9")
    assert list(tmp_path.iterdir()) == []


def test_requests_follow_the_settings(tmp_path, run, prompts):
    engine = SeededEngine()
    run(tmp_path / "0.jsonl", engine)
    request_id, prompt_ids, params = engine.requests[5]
    assert request_id == "11-1" and prompt_ids == prompts[1].token_ids.tolist()
    assert params == {
        "temperature": 1.0,
        "top_p": 0.95,
        "top_k": -1,
        "repetition_penalty": 1.0,
        "max_tokens": 3,
        "seed": sample_seed(7, 11, 1),
    }


def test_greedy(tmp_path, run):
    engine = SeededEngine()
    run(tmp_path / "greedy.jsonl", engine, settings=dataclasses.replace(SETTINGS, n=1, temperature=0.0, top_k=20))
    assert len(engine.requests) == 6
    params = engine.requests[0][2]
    assert (params["temperature"], params["top_p"], params["top_k"]) == (0.0, 1.0, -1)


def test_an_aborted_answer_is_not_recorded(tmp_path, run):
    class AbortingEngine(SeededEngine):
        async def generate(self, *arguments, **keywords):
            return TokenOutput(token_ids=[], stop_reason="aborted")

    with pytest.raises(RuntimeError, match="aborted sample"):
        run(tmp_path / "0.jsonl", AbortingEngine())
    assert list(tmp_path.iterdir()) == []


@given(st.integers(0, 2**31), st.integers(0, 10**7), st.integers(0, 1000))
def test_seeds_are_distinct_and_fit_an_engine(seed, prompt_id, number):
    own = sample_seed(seed, prompt_id, number)
    assert 0 <= own < 2**63
    assert own == sample_seed(seed, prompt_id, number)
    assert own not in {
        sample_seed(seed + 1, prompt_id, number),
        sample_seed(seed, prompt_id + 1, number),
        sample_seed(seed, prompt_id, number + 1),
    }


def test_seeds_stay_the_same_over_releases():
    # the first 8 bytes of `printf 7/11/1 | sha256sum`, shifted right by one bit
    assert sample_seed(7, 11, 1) == 0xE28F23E73AE031A2 >> 1
