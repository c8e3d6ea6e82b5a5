"""POST /v1/score: many questions in one call, and an outcome for each response."""

import pytest

from rl.scorer.sql import jobs
from rl.scorer.sql.payload import result_digest
from tests.scorer.conftest import SHOP, question


def test_answers_come_in_the_order_of_questions_and_responses(scorer) -> None:
    names = "SELECT name FROM clients"
    found = scorer.answers(
        question(names, names, "SELECT city FROM clients", "SELEC"),
        question("SELECT absent FROM clients", "SELECT 1"),
        {"question": question(names)["question"], "responses": ["I do not know."]},
        question("SELECT 1", method="spider"),
    )
    assert [[answer["outcome"] for answer in of_question] for of_question in found] == [
        ["match", "mismatch", "pred_error"],
        ["gold_error"],
        ["no_answer"],
        [],
    ]
    assert [answer["score"] for answer in found[0]] == [1.0, 0.0, 0.0]
    assert found[0][0] == {"outcome": "match", "score": 1.0, "pred": names, "error": None}
    assert found[0][2]["pred"] == "SELEC" and "syntax error" in found[0][2]["error"]
    assert "no such column" in found[1][0]["error"]
    assert found[2][0]["pred"] is None and "no closed ```sql" in found[2][0]["error"]


def test_digests_are_equal_for_equal_results(scorer) -> None:
    def digests(method: str, *responses: str) -> list[str | None]:
        [found] = scorer.answers(question("SELECT 1", *responses, method=method), digests=True)
        return [answer["digest"] for answer in found]

    values = "SELECT column1, column2 FROM (VALUES {})"
    one, other = values.format("(1, 'a'), (2, NULL)"), values.format("(2.0, NULL), (1, 'a'), (1, 'a')")
    mixed = values.format("(1, 'a'), (2.0, NULL), (1, 'a'), (x'00ff', 9e999)")
    of_bird, of_spider = (digests(method, one, other, mixed, "SELEC") for method in ("bird", "spider"))
    assert of_bird[0] == of_bird[1] and of_spider[0] != of_spider[1]
    # As in the F.results of earlier versions.
    assert of_bird[2].startswith("786d376b2c3c") and of_spider[2].startswith("cae45af814a0")
    assert of_bird[3] is None and of_spider[3] is None
    assert len({*digests("bird", "SELECT 1", "SELECT '1'", "SELECT NULL", "SELECT 1 WHERE 0")}) == 4
    [found] = scorer.answers(question("SELECT 1", one, other, "SELEC"), digests=True)
    assert [answer["result_rows"] for answer in found] == [2, 3, None]
    assert not {"digest", "result_rows"} & scorer.answers(question("SELECT 1", one))[0][0].keys()


def test_a_result_that_is_too_large_for_a_digest_keeps_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(1,), (2,)]
    job = {"sql": "SELECT a FROM b", "method": "bird"}
    assert "last" not in jobs._digest(rows, job)

    def digest(found: list, method: str) -> str:
        if found is rows:
            raise MemoryError
        return result_digest(found, method)

    monkeypatch.setattr(jobs, "result_digest", digest)
    found = jobs._digest(rows, job)
    assert found["last"] and found["digest"] != jobs._digest(rows, job | {"sql": "SELECT b FROM b"})["digest"]


BAD = [
    ({}, 400, "questions: Field required"),
    ({"questions": [question("SELECT 1"), {"responses": []}]}, 400, "questions.1.question: Field required"),
    ({"questions": [{"question": {"db_id": SHOP}, "responses": []}]}, 400, "questions.0.question.gold_sql"),
    ({"questions": [question("", method="x")]}, 400, "questions.0.question.cmp_m"),
    (
        {"questions": [question("SELECT 1"), question("SELECT 1", "SELECT 1", db_id="no.sqlite")]},
        404,
        "questions.1: db_id",
    ),
    ({"questions": [{"question": {"ground_truth": "1"}, "responses": ["1"]}]}, 404, "this server scores no math"),
]


def test_a_bad_question_is_named(scorer) -> None:
    for body, status, sentence in BAD:
        reply = scorer.client.post("/v1/score", json=body)
        assert reply.status_code == status and sentence in reply.json()["error"]


@pytest.fixture(scope="module")
def both(start_scorer):
    return start_scorer(math={"num_instances": 1, "prediction_seconds": 1.0, "grace_seconds": 1.0})


def test_a_server_scores_sql_and_math_in_both_shapes(both) -> None:
    math = {"question": {"ground_truth": "\\frac{1}{2}"}, "responses": ["so \\boxed{0.5}", "\\boxed{2}", "hm"]}
    found = both.answers(math, question("SELECT 1", "SELECT 1"))
    assert [(answer["outcome"], answer["score"], answer["pred"]) for answer in found[0]] == [
        ("match", 1.0, "0.5"),
        ("mismatch", 0.0, "2"),
        ("no_answer", 0.0, None),
    ]
    assert found[1][0]["outcome"] == "match"
    body = {"gen_responses": ["\\boxed{4}", "none"], "extra": {"ground_truth": "4", "index": 7}}
    reply = both.client.put("/api", json=body).json()["Scorer1"]
    assert reply[0] == [1.0, [["result", [["4"]]]]]
    assert reply[1][0] == 0.0 and reply[1][1][0][0] == "error" and reply[1][1][0][1].startswith("error: ")
