"""Values that a question names, within their budget."""

import json

from tests.data.prepare.conftest import contents, of_bird, write_database


def test_values_that_a_question_names_are_shown_within_their_budget(prepare, bird):
    people = ", ".join(f"({i}, 'Person number {i}', NULL)" for i in range(10, 600))
    write_database(
        bird / "dev_databases" / "shop" / "shop.sqlite",
        f"INSERT INTO customer VALUES {people}, (700, 'Zoë Brontë', NULL), (701, 'Brontë''s sister', NULL)",
    )
    records = [{"question_id": 0, "db_id": "shop", "question": "Where is zoe BRONTE?", "SQL": "SELECT 1"}]
    (bird / "dev.json").write_text(json.dumps(records))

    def shown(tokens: int, *more) -> str:
        done = prepare(*of_bird("--value-tokens", tokens, "--output", "v.parquet", *more))
        assert done.exit_code == 0, done.err
        [content] = contents("v.parquet")
        return next(line for line in content.splitlines() if line.startswith("    name "))

    # The value with both words first, then the one with one of them, before the first values of the column.
    assert shown(100) == "    name TEXT, -- e.g. 'Zoë Brontë', 'Brontë''s sister', 'Ann', 'O''Neil'"
    assert shown(6) == "    name TEXT, -- e.g. 'Zoë Brontë', 'Ann', 'O''Neil'"  # 2.5 characters are a token
    assert shown(0) == "    name TEXT, -- e.g. 'Ann', 'O''Neil'"
    assert shown(100, "--example-values", 0) == "    name TEXT, -- e.g. 'Zoë Brontë', 'Brontë''s sister'"
    first = (bird / "v.parquet").read_bytes()
    shown(100, "--example-values", 0)
    assert (bird / "v.parquet").read_bytes() == first
