"""Running a server for weeks: a full queue, work that takes long, metrics, the log, and how it is shut down."""

import concurrent.futures
import hashlib
import json
import socket
import time
from pathlib import Path

import httpx
import pytest

from tests.scorer.conftest import RUNAWAY, SHOP, fenced, question

ENDLESS = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"


def scored(scorer) -> list[dict]:
    """The lines of its log about requests."""
    lines = [json.loads(line) for line in (scorer.directory / "scorer.log").read_text().splitlines()]
    return [line for line in lines if line["message"] == "scored"]


def test_a_full_queue_is_said_with_the_time_to_come_back(start_scorer) -> None:
    scorer = start_scorer(
        server={"max_waiting": 12}, num_instances=1, slow_instances=1, prediction_seconds=0.2, gold_seconds=30.0
    )
    # A burst is bounded before its gold has run.
    gold = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 1000000) SELECT max(x) FROM r"
    with concurrent.futures.ThreadPoolExecutor(20) as executor:
        sent = [executor.submit(scorer.put, [fenced("SELECT 1000000"), fenced("SELECT 1")], gold) for _ in range(20)]
        replies = [reply.result() for reply in sent]
    assert {reply.status_code for reply in replies} == {200, 503}
    taken = [reply.json()["Scorer1"] for reply in replies if reply.status_code == 200]
    assert all([score for score, _ in scores] == [1.0, 0.0] for scores in taken)
    many = [fenced(ENDLESS.format(number)) for number in range(8)]
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        under_way = executor.submit(scorer.put, many, "SELECT 1")
        while scorer.metric('scorer_waiting{kind="sql"}') < 4:
            time.sleep(0.02)
        refused = scorer.put([fenced(f"SELECT {number}") for number in range(10)], "SELECT 1")
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.json()["busy"] is True and "max_waiting" in refused.json()["error"]
        # A small one is still taken, and what was taken is answered.
        assert scorer.outcome("SELECT 1") == "match"
        assert {detail["outcome"] for detail in under_way.result().json()["details"]} == {"pred_timeout"}
    assert scorer.score([fenced(f"SELECT {number}") for number in range(40)], "SELECT 1")
    # Without a token, the loopback may end it.
    assert scorer.client.put("/shutdown").json() == {"status": "ending"}
    assert scorer.process.wait(timeout=20) == 0


def test_work_that_takes_long_goes_on_and_is_joined(start_scorer) -> None:
    scorer = start_scorer(server={"request_seconds": 0.3}, prediction_seconds=1.0)
    first = scorer.put([fenced(RUNAWAY)], "SELECT 1")
    assert first.status_code == 503 and first.json()["busy"] is True and "ask again" in first.json()["error"]
    misses = scorer.metric('scorer_cache_misses_total{cache="sql_answers"}')
    replies = [first]
    while replies[-1].status_code == 503:
        replies.append(scorer.put([fenced(RUNAWAY)], "SELECT 1"))
        assert len(replies) < 60
    assert replies[-1].json()["details"][0]["outcome"] == "pred_timeout"
    assert scorer.metric('scorer_cache_misses_total{cache="sql_answers"}') == misses == 1


COUNTED = {
    'answers_total{outcome="match"}': 3,
    'answers_total{outcome="mismatch"}': 1,
    'answers_total{outcome="no_answer"}': 1,
    'answers_total{outcome="infra_error"}': 0,
    'requests_total{path="/api",status="200"}': 2,
    'requests_total{path="/api",status="400"}': 1,
    'requests_total{path="other",status="404"}': 1,
    'request_seconds_count{path="/api"}': 3,
    # The second of two equal responses to one question is not asked for.
    'cache_misses_total{cache="sql_answers"}': 2,
    'cache_hits_total{cache="sql_answers"}': 1,
    'cache_hits_total{cache="gold"}': 1,
    'workers{kind="sql"}': 2,
    'waiting{kind="sql"}': 0,
}


def test_metrics_count_what_was_answered(start_scorer) -> None:
    scorer = start_scorer()
    scorer.score([fenced("SELECT 1"), fenced("SELECT 1"), fenced("SELECT 2"), "nothing"], "SELECT 1")
    scorer.score([fenced("SELECT 1")], "SELECT 1")
    assert scorer.client.put("/api", content=b"{").status_code == 400
    scorer.client.get("/no/such/path")
    assert {name: scorer.metric(f"scorer_{name}") for name in COUNTED} == COUNTED


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device whose disk is full is Linux's")
def test_without_caches_and_with_a_full_disk_of_the_log(start_scorer) -> None:
    """Everything runs each time and gets its score; an address for all is written as the host's name."""
    server = {"log_file": "/dev/full", "address": "0.0.0.0"}
    scorer = start_scorer(server=server, gold_cache_bytes=0, answer_cache_bytes=0)
    assert scorer.client.base_url.host == socket.gethostname().lower()
    for _ in range(3):
        assert scorer.outcome("SELECT 1") == "match"
    assert scorer.metric('scorer_cache_misses_total{cache="gold"}') == 3
    assert scorer.metric('scorer_cache_misses_total{cache="sql_answers"}') == 3
    assert scorer.metric('scorer_cache_bytes{cache="gold"}') == 0
    assert scorer.metric("scorer_log_failures_total") >= 3


def test_the_log_is_json_with_texts_only_when_asked_and_bounded(scorer, start_scorer) -> None:
    talking = start_scorer(server={"log_responses": True, "log_file_bytes": 2000})
    extra = {"db_id": SHOP, "gold_sql": "SELECT 1", "cmp_method": "bird"}
    content = {"gen_responses": [fenced("SELECT 'a secret'")], "extra": extra}
    labels = {"idx": "row 17", "round": 3, "type": "train"}
    for server in (scorer, talking):
        assert server.client.put("/api", json=content | labels).status_code == 200
    said = scored(scorer)[-1]
    assert said.items() >= labels.items()
    assert said["outcomes"] == {"mismatch": 1} and said["question"] == SHOP and said["ms"] > 0
    assert "secret" not in (scorer.directory / "scorer.log").read_text()
    [said] = scored(talking)
    assert said["responses"] == [[fenced("SELECT 'a secret'")]]
    for _ in range(50):
        talking.outcome("SELECT 1")
    files = sorted(talking.directory.glob("scorer.log*"))
    assert len(files) == 4 and all(path.stat().st_size <= 2000 for path in files)


def test_shutdown_wants_the_token_and_finishes_what_is_under_way(start_scorer) -> None:
    scorer = start_scorer(server={"shutdown_token": "an odd word"}, prediction_seconds=0.5)
    for headers in ({}, {"Authorization": "Bearer another"}, {"Authorization": "an odd"}):
        refused = scorer.client.put("/shutdown", headers=headers)
        assert refused.status_code == 403 and "shutdown_token" in refused.json()["error"]
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        under_way = executor.submit(scorer.put, [fenced(RUNAWAY)], "SELECT 1")
        while scorer.metric('scorer_running{kind="sql"}') == 0:
            time.sleep(0.02)
        token = {"Authorization": "Bearer an odd word"}
        assert scorer.client.put("/shutdown", headers=token).json() == {"status": "ending"}
        assert under_way.result().json()["details"][0]["outcome"] == "pred_timeout"
    assert scorer.process.wait(timeout=20) == 0
    assert not (scorer.directory / "address").exists()


def test_it_says_what_it_serves(scorer) -> None:
    info = scorer.client.get("/v1/info").json()
    [config] = scorer.directory.glob("*.yaml")
    assert info["config_sha256"] == hashlib.sha256(config.read_bytes()).hexdigest()
    served = {found["kind"]: found for found in info["scorers"]}
    assert served["sql"]["engine"] == "sqlite" and Path(served["sql"]["database_path"]).is_dir()


def test_a_client_that_goes_away_leaves_the_others_their_answers(scorer) -> None:
    lonely = ENDLESS.format(2)
    with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=scorer.url, timeout=0.3, trust_env=False) as impatient:
        impatient.post("/v1/score", json={"questions": [question("SELECT 1", lonely)]})
    assert scorer.outcome("SELECT 1") == "match"
    assert scorer.outcome(lonely) == "pred_timeout"
