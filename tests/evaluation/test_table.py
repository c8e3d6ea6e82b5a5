"""A small table as Markdown."""

from rl.evaluation.table import Cell, Row, Table, markdown, p_cell, p_in_words, plain_columns


def test_a_small_table_by_hand():
    rows = (Row("Group", "", ()), Row("A_b | <c>", "ours", (Cell(12.345, 10, 15), None)))
    table = Table("50 % of it", (("Bird", "Greedy"), ("Bird", "Pass@8")), rows)
    assert markdown(table).splitlines() == [
        "### 50 % of it",
        "",
        "| Model | Source | Bird Greedy | Bird Pass@8 |",
        "| --- | --- | ---: | ---: |",
        "| **Group** |  |  |  |",
        r"| A_b \| &lt;c> | ours | 12.3 [10.0, 15.0] | – |",
    ]


def test_a_p_is_never_zero():
    assert [p_in_words(p) for p in (0.0004, 0.0006, 0.0494, 1.0)] == ["p < 0.001", "p 0.001", "p 0.049", "p 1.000"]
    table = Table("", plain_columns("p"), [Row("A", "", [p_cell(0.00005)])])
    assert markdown(table).endswith("| ---: |\n| A | < 0.001 |\n")
