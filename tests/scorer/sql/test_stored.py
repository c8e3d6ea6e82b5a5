"""Stored results as gold (`spider2`): the comparison, against Spider 2.0's rules, and through the server."""

import json

import pytest

from rl.scorer.sql.execute import Limits, StatementError
from rl.scorer.sql.stored import equal_stored, read_table
from tests.scorer.conftest import Scorer, question

LIMITS = Limits(sql_chars=1000, value_bytes=1000, rows=5, bytes=1000)
SCORES = "name,score,when\nAda,7.5,2020\nBen,6.001,\n"
ROWS = [("Ada", 7.5, 2020), ("Ben", 6, None)]


def table(tmp_path, text: str, *columns: int):
    path = tmp_path / "gold.csv"
    path.write_text(text)
    return read_table(str(path), columns, LIMITS)


@pytest.mark.parametrize(
    ("columns", "predicted", "ordered", "equal"),
    [
        ((), ROWS, True, True),  # 6 is 6.001, within .01
        ((), [("Ada", 7.52, 2020), ("Ben", 6, None)], True, False),
        # further columns, and their order, do not count
        ((), [(1, *reversed(row)) for row in ROWS], True, True),
        ((), [(row[0], row[1]) for row in ROWS], True, False),
        ((0, 1), [(row[0], row[1]) for row in ROWS], True, True),
        ((), ROWS[::-1], True, False),
        ((), ROWS[::-1], False, True),
        # each column is sorted by itself, as the published evaluation does
        ((0, 1), [("Ada", 6), ("Ben", 7.5)], False, True),
        ((2,), [("2020",), ("NULL",)], True, True),  # texts of numbers are numbers, as after a CSV
        ((0,), [("Ada",)], True, False),
        ((0,), [], True, False),
    ],
)
def test_columns_that_match(tmp_path, columns, predicted, ordered, equal):
    assert equal_stored([table(tmp_path, SCORES, *columns)], ordered, predicted) is equal


def test_any_of_several_tables_and_odd_columns(tmp_path):
    tables = [table(tmp_path, "a\n1\n"), table(tmp_path, "a,b\nTrue,001\n\nFalse,x\n")]
    assert equal_stored(tables, True, [(1,)])
    assert equal_stored(tables, True, [(1, "001"), (0, "x")])
    assert not equal_stored(tables, True, [(1, "1"), (0, "x")])  # one text in a column makes it texts
    assert equal_stored([table(tmp_path, "a\n")], True, []) and not equal_stored([table(tmp_path, "a\n")], True, [(1,)])


@pytest.mark.parametrize(
    ("text", "columns", "sentence"),
    [
        ("a,b\n1\n", (), "a row of another length than its header, 2 columns"),
        ("a,b\n1,2\n", (2,), "has 2 columns, not those at [2]"),
        ("", (), "has 0 columns"),
        ("a\n" + "1\n" * 6, (), "more than 5 rows"),
        ("a\n" + "1" * 1001, (), "more than 1000 bytes"),
    ],
)
def test_text_that_is_not_a_table(tmp_path, text, columns, sentence):
    with pytest.raises(StatementError) as error:
        table(tmp_path, text, *columns)
    assert sentence in str(error.value)


def test_the_server_compares_with_stored_results_below_its_folder(scorer: Scorer) -> None:
    (scorer.databases / "gold").mkdir()
    (scorer.databases.parent / "outside.csv").write_text("n\n1\n")
    for name, text in (("a", "n,m\n1,2\n"), ("b", "n\n3\n")):
        (scorer.databases / "gold" / f"{name}.csv").write_text(text)

    def ask(predicted: str, **gold):
        return scorer.post(question(json.dumps(gold), predicted, method="spider2"), digests=True)

    results = [{"file": "gold/a.csv", "columns": [1]}, {"file": "gold/b.csv"}]
    expected = {"SELECT 2": "match", "SELECT 3, 'x'": "match", "SELECT 1": "mismatch", "SELECT no": "pred_error"}
    for predicted, outcome in expected.items():
        [[answer]] = ask(predicted, results=results).json()["answers"]
        assert (answer["outcome"], answer["score"]) == (outcome, float(outcome == "match"))
    # A file that changes is read again.
    (scorer.databases / "gold" / "b.csv").write_text("n\n30\n")
    assert ask("SELECT 30", results=results).json()["answers"][0][0]["outcome"] == "match"
    missing = ask("SELECT 1", results=[{"file": "gold/a.csv", "columns": [5]}]).json()["answers"][0][0]
    assert missing["outcome"] == "gold_error" and "a.csv has 2 columns, not those at [5]" in missing["error"]
    for file in ("../outside.csv", str(scorer.databases.parent / "outside.csv"), "gold/none.csv", "shop/shop.sqlite"):
        reply = ask("SELECT 1", results=[{"file": file}])
        assert reply.status_code == 404 and f"gold_sql {file!r} " in reply.json()["error"], reply.text
    for wrong in ({}, {"results": []}, {"results": [{"file": "gold/a.csv", "columns": [-1]}]}):
        reply = ask("SELECT 1", **wrong)
        assert reply.status_code == 400 and "gold_sql is not JSON of stored results: results" in reply.text
