"""OmniSQL's template; test_sql.py has ours."""

from tests.data.prepare.conftest import contents, of_bird

OMNISQL = """\
CREATE TABLE customer (
    id INTEGER, -- example: [1, 2]
    name TEXT, -- example: ['Ann', "O'Neil"]
    joined DATE, -- example: ['2020-01-01', '2021-05-05']
    PRIMARY KEY (id)
);

CREATE TABLE `order` (
    id INTEGER, -- example: [7, 8]
    customer_id INTEGER, -- example: [1, 2]
    `Total (USD)` REAL, -- example: [9.5, 20.0]
    PRIMARY KEY (id, customer_id),
    CONSTRAINT fk_order_customer_id FOREIGN KEY (customer_id) REFERENCES customer (id)
);
This schema describes the database's structure, including"""


def test_omnisqls_template(prepare, bird):
    assert prepare(*of_bird("--template", "omnisql", "--output", "o.parquet")).exit_code == 0
    first, second, _ = contents("o.parquet")
    assert first.startswith("Task Overview:\nYou are a data science expert. Below,") and OMNISQL in first
    assert first.endswith("Take a deep breath and think step by step to find the correct SQL query.\n")
    assert "\n\nQuestion:\nan order refers to customer_id\nWho has an order?\n\nInstructions:\n" in second
