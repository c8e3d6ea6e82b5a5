"""PUT /api and GET /heartbeat: shapes, scores and refusals, over HTTP."""

import concurrent.futures
import json
import sqlite3
import time
from contextlib import closing

import pytest

from tests.scorer.conftest import RUNAWAY, SHOP, fenced, make_database

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
    """One worker, other rules than the shipped ones, time enough for a statement to count as slow, any for gold."""
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
    # The cap of the rows sent back is 2; the score is that of all six.
    assert scorer.score([fenced(CITIES)], CITIES)["Scorer1"] == [[1.0, [["result", [[1, "Oslo"], [2, "Rome"]]]]]]


def test_values_survive_json(scorer) -> None:
    sql = "SELECT id, price, note FROM orders"
    reply = scorer.put([fenced(sql)], sql)
    rows = json.loads(reply.text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["Scorer1"][0][1][0][1]
    assert rows == [
        [1, 10.0, {"blob": "00ff"}],
        [2, 20.5, None],
        [3, {"float": "inf"}, None],
        # The byte that is no UTF-8 is ignored.
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


# Other db_ids that name no database: sql/test_isolation.py.
REJECTED = [
    (b"", 400, "JSON"),
    (b"{gen_responses", 400, "JSON"),
    (b"\xff\xfe", 400, "JSON"),
    (b"[1]", 400, "body"),
    (b"null", 400, "body"),
    (body(gen_responses=None), 400, "gen_responses"),
    (body(gen_responses="SELECT 1"), 400, "gen_responses"),
    (body(gen_responses=[None]), 400, "gen_responses.0"),
    (body(extra=None), 400, "extra"),
    (body(gold_sql=None), 400, "extra.gold_sql"),
    (body(cmp_method="exact"), 400, "extra.cmp_method"),
    (b'{"gen_responses": ["\\ud800"], "extra": {}}', 400, "JSON"),
    (body(db_id="shop/none.sqlite"), 404, "shop/none.sqlite"),
    (body(db_id="notes.txt"), 404, "notes.txt"),
    (body(db_id="/etc/passwd.sqlite"), 404, "relative"),
    (body(db_id="../outside.sqlite"), 404, "leads out"),
    (body(db_id="x" * 5000 + ".sqlite"), 404, "cannot be read"),
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


def test_odd_file_names_and_the_other_suffix_are_served(scorer) -> None:
    odd = scorer.databases / "a b%20#?&'ü" / "x;y.sqlite"
    odd.parent.mkdir()
    for path in (odd, scorer.databases / "shop" / "shop.db"):
        path.write_bytes((scorer.databases / SHOP).read_bytes())
    names = "SELECT name FROM clients"
    assert scorer.outcome(names, names, db_id="a b%20#?&'ü/x;y.sqlite") == "match"
    assert scorer.outcome(names, names, db_id="shop/shop.db") == "match"


def test_a_file_that_is_no_database_is_a_gold_error(scorer) -> None:
    (scorer.databases / "text.sqlite").write_text("This is a text, long enough to be read as a header." * 100)
    assert scorer.outcome("SELECT 1", "SELECT count(*) FROM sqlite_master", db_id="text.sqlite") == "gold_error"


def test_a_locked_database_is_no_score(scorer) -> None:
    make_database(path := scorer.databases / "locked.sqlite", "CREATE TABLE t (a)")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        reply = scorer.put([fenced("SELECT 1")], "SELECT a FROM t", db_id="locked.sqlite")
        assert reply.status_code == 503 and "locked" in reply.json()["error"]
    assert scorer.outcome("SELECT a FROM t", "SELECT a FROM t", db_id="locked.sqlite") == "match"
