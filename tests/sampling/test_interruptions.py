"""Sampling that is killed or hindered, then continued: the records are those of an undisturbed run, nothing is drawn
twice that was answered, and no answer gets a 0 that it was not given."""

import multiprocessing
import time

import pytest

from rl.data.sample_file import journal_path
from tests.sampling.conftest import sorted_records

TOTAL = 24
DEADLINE_S = 60


@pytest.fixture
def undisturbed(tmp_path, run, seeded_engine):
    run(tmp_path / "undisturbed" / "0.jsonl", seeded_engine())
    return sorted_records(tmp_path / "undisturbed" / "0.jsonl")


def wait_until(holds, process) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.005)


def lines(path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture
def start():
    """Starts a function in a process of its own."""
    started = []

    def start(function, *arguments, **keywords):
        child = multiprocessing.get_context("fork").Process(target=function, args=arguments, kwargs=keywords)
        child.start()
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()


def test_kill_9_while_answers_wait_for_their_score(tmp_path, run, start, seeded_engine, undisturbed, holding_scorer):
    path, journal = tmp_path / "0.jsonl", journal_path(tmp_path / "0.jsonl")
    with holding_scorer(2) as scorer:
        process = start(run, path, seeded_engine(), scorer=scorer.address, max_in_flight=4)
        # Three answers are held for every request that may be in flight, beside those that got their score.
        wait_until(lambda: scorer.holds.is_set() and lines(path) and lines(journal) == 12 + lines(path), process)
        process.kill()
        process.join()
    answered = lines(journal)
    assert 0 < lines(path) < answered < TOTAL
    engine = seeded_engine()
    drawn = run(path, engine)
    assert drawn.samples == len(engine.answered) == TOTAL - answered
    assert sorted_records(path) == undisturbed
    assert not journal.exists()
