"""The HTTP server: PUT /api, refusals, a full queue, slow work, the log, and how it is shut down."""

import concurrent.futures
import json
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from rl.common.outcomes import VERDICT_HEADER
from rl.scorer.config_file import load_settings
from tests.scorer.conftest import RUNAWAY, SHOP, fenced, make_database, question

CITIES = "SELECT id, city FROM clients"


def test_answers_in_order_in_the_paper_s_shape(scorer) -> None:
    responses = [
        fenced("SELECT name FROM clients WHERE city = 'Oslo'"),
        "no idea",
        fenced("SELECT name FROM clients"),
        fenced("SELECT missing FROM clients"),
        fenced("SELECT 'Oslo'"),
    ]
    answer = scorer.score(responses, "SELECT name FROM clients WHERE city = 'Oslo'")
    assert answer["Scorer1"] == [
        [1.0, [["result", [["Ann"], ["Cid"]]]]],
        [0.0, [["error", "error: the response has no closed ```sql block"]]],
        [0.0, [["result", [["Ann"], ["Bob"], ["Cid"], ["Dee"], ["Eve"], ["Ann"]]]]],
        [0.0, [["error", "error: no such column: missing"]]],
        [0.0, [["result", [["Oslo"]]]]],
    ]
    outcomes = [detail["outcome"] for detail in answer["details"]]
    assert outcomes == ["match", "no_answer", "mismatch", "pred_error", "mismatch"]
    assert answer["details"][0]["pred"] == "SELECT name FROM clients WHERE city = 'Oslo'"
    assert answer["details"][1]["pred"] is None
    assert scorer.score([], "SELECT 1") == {"Scorer1": [], "details": []}


@pytest.fixture(scope="module")
def other_scorer(start_scorer):
    """One worker, other rules than the shipped ones, and time for a statement to become slow."""
    return start_scorer(
        order_check=False,
        class_name="SqlRewardModel",
        num_instances=1,
        payload_rows=2,
        prediction_seconds=2.0,
        gold_seconds=600.0,
    )


def test_order_check_and_partial_credit_are_settings(other_scorer) -> None:
    scorer = other_scorer
    gold = "SELECT id FROM clients ORDER BY id DESC"
    assert scorer.outcome("SELECT id FROM clients ORDER BY id", gold, "spider") == "match"
    answer = scorer.score([fenced("SELECT city FROM clients")], CITIES)
    assert answer["Scorer1"][0][0] == 0.0
    assert answer["details"][0]["outcome"] == "mismatch"
    # The cap of the rows sent back is 2; the score counts all six.
    assert scorer.score([fenced(CITIES)], CITIES)["Scorer1"] == [[1.0, [["result", [[1, "Oslo"], [2, "Rome"]]]]]]


def test_values_survive_json(scorer) -> None:
    sql = "SELECT id, price, note FROM orders"
    reply = scorer.put([fenced(sql)], sql)
    rows = json.loads(reply.text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["Scorer1"][0][1][0][1]
    assert rows == [
        [1, 10.0, {"blob": "00ff"}],
        [2, 20.5, None],
        [3, {"float": "inf"}, None],
        # The byte that is not UTF-8 is ignored.
        [4, 7.0, "ab"],
    ]


def test_one_statement_is_taken(scorer) -> None:
    for sql in ("SELECT 1;", "SELECT 1;;", "SELECT 1; -- done", "-- JOIN\nSELECT 1"):
        assert scorer.outcome(sql) == "match", sql
    for sql in ("SELECT 1; SELECT 1", "SELECT 1; DROP TABLE clients", "-- nothing", "SELECT 1\0", "SELECT"):
        assert scorer.outcome(sql) == "pred_error", sql


def test_gold_that_fails_is_not_a_wrong_answer(scorer) -> None:
    answer = scorer.score([fenced("SELECT 1"), "none"], "SELECT missing FROM clients")
    assert answer["Scorer1"] == [[0.0, [["gold_error", "error: no such column: missing"]]]] * 2
    assert answer["details"] == [{"outcome": "gold_error", "pred": "SELECT 1"}, {"outcome": "gold_error", "pred": None}]


def test_each_statement_has_its_own_time_limit(scorer, other_scorer) -> None:
    """Load can only make them take longer."""
    # By gold's limit there, the client would not wait for the answer.
    answer = other_scorer.score([fenced(f"{RUNAWAY} -- limited")], "SELECT 1")
    assert answer["Scorer1"] == [[0.0, [["error", "timeout"]]]]
    assert answer["details"][0]["outcome"] == "pred_timeout"
    # Gold may take longer than a prediction may: 1.5 s here.
    started = time.monotonic()
    answer = scorer.score([fenced("SELECT 1")], RUNAWAY)
    assert time.monotonic() - started >= 1.5
    assert answer["Scorer1"] == [[0.0, [["gold_error", "timeout"]]]]
    assert answer["details"][0]["outcome"] == "gold_timeout"


def test_waiting_does_not_count_and_heartbeat_answers_while_all_workers_are_busy(scorer) -> None:
    # By the clock each takes longer than a statement may run.
    runaways = [fenced(f"{RUNAWAY} -- {i}") for i in range(4)]
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        slow = executor.submit(scorer.score, runaways, "SELECT 1")
        answered = 0
        while not slow.done():
            assert scorer.client.get("/heartbeat").json() == {"status": "healthy"}
            answered += not slow.done()
            time.sleep(0.05)
    assert answered > 1
    assert {detail["outcome"] for detail in slow.result()["details"]} == {"pred_timeout"}


def test_a_slow_statement_does_not_hold_up_others(other_scorer) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        slow = executor.submit(other_scorer.outcome, RUNAWAY)
        time.sleep(0.1)
        assert other_scorer.outcome("SELECT 1") == "match"
        assert not slow.done()
        assert slow.result() == "pred_timeout"


def body(**changes: object) -> dict:
    extra = {"db_id": SHOP, "gold_sql": "SELECT 1", "cmp_method": "bird"}
    content = {"gen_responses": [fenced("SELECT 1")], "extra": extra}
    for key, value in changes.items():
        target = extra if key in extra else content
        if value is None:
            del target[key]
        else:
            target[key] = value
    return content


# Other db_ids that name no database: sql/test_execute.py.
REJECTED = [
    (b"", 400, "JSON"),
    (b"\xff\xfe", 400, "JSON"),
    (b"[1]", 400, "body"),
    (body(gen_responses="SELECT 1"), 400, "gen_responses"),
    (body(gen_responses=[None]), 400, "gen_responses.0"),
    (body(extra=None), 400, "extra"),
    (body(gold_sql=None), 400, "extra.gold_sql"),
    (body(cmp_method="exact"), 400, "extra.cmp_method"),
    (b'{"gen_responses": ["\\ud800"], "extra": {}}', 400, "JSON"),
    (body(db_id="notes.txt"), 404, "notes.txt"),
    (body(db_id="/etc/passwd.sqlite"), 404, "relative"),
    (body(db_id="../outside.sqlite"), 404, "leads out"),
]


def test_bad_input_between_good_is_rejected_with_a_sentence(scorer) -> None:
    (scorer.databases / "notes.txt").write_text("text")
    files = sorted(scorer.directory.rglob("*"))
    bodies = [content if isinstance(content, bytes) else json.dumps(content).encode() for content, *_ in REJECTED]
    with concurrent.futures.ThreadPoolExecutor(16) as executor:
        bad = [executor.submit(scorer.client.put, "/api", content=content) for content in bodies * 10]
        good = [executor.submit(scorer.outcome, f"SELECT {i}", f"SELECT {i} + 0") for i in range(100)]
        for i, reply in enumerate(bad):
            content, status, said = REJECTED[i % len(REJECTED)]
            assert reply.result().status_code == status and said in reply.result().json()["error"], content
        assert {outcome.result() for outcome in good} == {"match"}
    assert sorted(scorer.directory.rglob("*")) == files
    # A body without a length is limited too.
    for content in (json.dumps(body(gen_responses=["x" * 10_000_000])), (b"x" * 1_000_000 for _ in range(12))):
        reply = scorer.client.put("/api", content=content)
        assert reply.status_code == 413 and "10000000" in reply.json()["error"]
    assert scorer.outcome("SELECT 1") == "match"
    assert "error" in scorer.client.get("/nothing").json()
    assert scorer.client.post("/api", json={}).status_code == 405


def test_a_locked_database_gives_no_score(scorer) -> None:
    make_database(path := scorer.databases / "locked.sqlite", "CREATE TABLE t (a)")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        reply = scorer.put([fenced("SELECT 1")], "SELECT a FROM t", db_id="locked.sqlite")
        assert reply.status_code == 503 and "locked" in reply.json()["error"]
    assert scorer.outcome("SELECT a FROM t", "SELECT a FROM t", db_id="locked.sqlite") == "match"


ENDLESS = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"


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
        assert refused.headers["Retry-After"] == "1"
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
    'answers_total{outcome="infra_error"}': 0,
    'requests_total{path="/api",status="200"}': 2,
    'requests_total{path="/api",status="400"}': 1,
    'requests_total{path="other",status="404"}': 1,
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


def test_without_caches_and_with_a_full_disk_of_the_log(start_scorer) -> None:
    """Everything runs each time and gets its score; the address 0.0.0.0 is written as the host's name."""
    server = {"log_file": "/dev/full", "address": "0.0.0.0"}
    scorer = start_scorer(server=server, gold_cache_bytes=0, answer_cache_bytes=0)
    assert scorer.client.base_url.host == socket.gethostname().lower()
    for _ in range(3):
        assert scorer.outcome("SELECT 1") == "match"
    assert scorer.metric('scorer_cache_misses_total{cache="gold"}') == 3
    assert scorer.metric('scorer_cache_misses_total{cache="sql_answers"}') == 3
    assert scorer.metric('scorer_cache_bytes{cache="gold"}') == 0


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
    databases = {"database_path": next(found["database_path"] for found in info["scorers"] if found["kind"] == "sql")}
    assert info["verdict_sha256"] == load_settings(config, sql=databases).verdict_sha256
    reply = scorer.client.post("/v1/score", json={"questions": []})
    assert reply.json() == {"answers": []} and reply.headers[VERDICT_HEADER] == info["verdict_sha256"]
    served = {found["kind"]: found for found in info["scorers"]}
    assert served["sql"]["engine"] == "sqlite" and Path(served["sql"]["database_path"]).is_dir()


def test_a_client_that_goes_away_leaves_the_others_their_answers(scorer) -> None:
    lonely = ENDLESS.format(2)
    with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=scorer.url, timeout=0.3, trust_env=False) as impatient:
        impatient.post("/v1/score", json={"questions": [question("SELECT 1", lonely)]})
    assert scorer.outcome("SELECT 1") == "match"
    assert scorer.outcome(lonely) == "pred_timeout"
