"""A small table as Markdown."""

from rl.evaluation.table import Row, Table, markdown, p_cell, p_in_words, plain_columns


def test_a_p_is_never_zero():
    assert [p_in_words(p) for p in (0.0004, 0.0006, 0.0494, 1.0)] == ["p < 0.001", "p 0.001", "p 0.049", "p 1.000"]
    table = Table("", plain_columns("p"), [Row("A", "", [p_cell(0.00005)])])
    assert markdown(table).endswith("| ---: |\n| A | < 0.001 |\n")
