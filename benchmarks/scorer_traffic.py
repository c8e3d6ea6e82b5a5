"""What the scorer's benchmarks send: databases, queries and answers."""

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

ORDERS, CLIENTS = 300_000, 5_000
RESPONSES, CONCURRENCY = 16, 64
QUESTIONS = 8  # per request to POST /v1/score
BATCH = QUESTIONS * RESPONSES  # responses of such a request
REPEATED_SHARE = 1 / 3
RUNAWAY = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
CORES = os.cpu_count() or 1
# Each query takes about 1 to 30 ms, 14 ms on average, on the machine of benchmarks/README.md. {} makes the text
# of each one different without changing its work.
QUERIES = (
    "SELECT city, count(*) FROM orders WHERE price > 90.{0} GROUP BY city",
    "SELECT count(*) FROM orders WHERE client < 2500.{0}",
    "SELECT client, sum(price) FROM orders WHERE client < 40.{0} GROUP BY client ORDER BY 2 DESC LIMIT 5",
    "SELECT name FROM clients JOIN orders ON orders.client = clients.id WHERE price > 99.9{0} LIMIT 20",
    "SELECT DISTINCT city FROM orders WHERE day = '2020-03-07' AND price < 50.{0}",
    "SELECT max(price) FROM orders WHERE city = 'city7' AND price < 99.{0}",
    "SELECT price, day FROM orders WHERE id BETWEEN 1000 AND 1020 AND price < 99.{0}",
    "SELECT name, city FROM orders JOIN clients ON clients.id = client WHERE orders.id = 77 AND price < 99.{0}",
    "SELECT name FROM clients WHERE id > 4990.{0} ORDER BY name",
)


class Item(NamedTuple):
    """One response to a question."""

    gold: str
    sql: str
    endless: bool

    @property
    def body(self) -> dict:
        response = "I look at the orders. " * 20 + (f"\n{fenced(self.sql)}" if self.sql else "")
        return {"gen_responses": [response], "extra": sql_question("shop", self.gold)}


def sql_question(database: str, gold: str, method: str = "bird") -> dict:
    return {"db_id": f"{database}/{database}.sqlite", "gold_sql": gold, "cmp_method": method}


def fenced(sql: str) -> str:
    return f"```sql\n{sql}\n```"


def make_databases(root: Path) -> None:
    """Write shop/shop.sqlite with ORDERS rows, and small/small.sqlite."""
    generator = random.Random(0)

    def order(number: int) -> tuple:
        client, price, city = generator.randrange(CLIENTS), generator.random() * 100, generator.randrange(50)
        day = f"2020-{generator.randrange(1, 13):02d}-{generator.randrange(1, 29):02d}"
        return number, client, round(price, 2), f"city{city}", day

    for folder, orders in (("shop", ORDERS), ("small", 200)):
        (root / folder).mkdir()
        with closing(sqlite3.connect(root / folder / f"{folder}.sqlite")) as connection, connection:
            connection.execute("CREATE TABLE clients (id INTEGER PRIMARY KEY, name TEXT)")
            columns = "id INTEGER PRIMARY KEY, client INTEGER, price REAL, city TEXT, day TEXT"
            connection.execute(f"CREATE TABLE orders ({columns})")
            connection.executemany("INSERT INTO clients VALUES (?, ?)", ((i, f"client {i}") for i in range(CLIENTS)))
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", map(order, range(orders)))


def traffic(questions: int, seed: int, *, repeated: float = REPEATED_SHARE, endless: float = 0.0) -> list[Item]:
    """RESPONSES responses to each question, in the order of a training step."""
    generator = random.Random(seed)
    items: list[Item] = []
    for question in range(questions):
        gold = QUERIES[question % len(QUERIES)].format(f"{seed}{question:05d}99")
        ordinary: list[Item] = []
        for number in range(RESPONSES):
            if generator.random() < endless:
                items.append(Item(gold, RUNAWAY.format(len(items)), True))
                continue
            if ordinary and generator.random() < repeated * RESPONSES / (RESPONSES - 1):
                ordinary.append(generator.choice(ordinary))
            else:
                sql = generator.choice(QUERIES).format(f"{seed}{question:05d}{number:02d}")
                ordinary.append(Item(gold, sql, False))
            items.append(ordinary[-1])
    return items


def small_batch(number: int) -> dict:
    """A request with distinct small queries."""
    questions = []
    for key in range(number * QUESTIONS, (number + 1) * QUESTIONS):
        sql = "SELECT city, count(*) FROM orders WHERE id < {}{} GROUP BY city"
        responses = [fenced(sql.format(50 + i, f" AND {key} = {key}")) for i in range(RESPONSES)]
        questions.append({"question": sql_question("small", sql.format(key % 150, "")), "responses": responses})
    return {"questions": questions}


# The kinds of answers in AIME, MATH and Minerva; {0} makes each one different.
ANSWERS = (
    ("{0}", "0{0}"),
    (r"\frac{{{0}}}{{7}}", r"\dfrac{{{0}}}{{7}}"),
    ("{0}.5", r"\frac{{2 \cdot {0} + 1}}{{2}}"),
    (r"{0}\sqrt{{3}}", r"\sqrt{{3 \cdot {0}^2}}"),
    ("({0}, 2)", "(2, {0})"),
    (r"\{{1, {0}\}}", r"{0}, 1"),
    ("[1, {0})", "[1, {0}]"),
    (r"{0} \times 10^{{3}}", "{0}000"),
    ("{0}x^2 + 1", "1 + {0}x^2"),
    (r"{0}\%", "{0}"),
    ("x = {0}", "{0}"),
    (r"\begin{{pmatrix}} {0} & 1 \\ 0 & 2 \end{{pmatrix}}", r"\begin{{pmatrix}} {0} & 1 \\ 0 & 3 \end{{pmatrix}}"),
)


def math_pairs(count: int, first: int) -> list[tuple[str, str]]:
    """(gold, answer), all different."""
    kinds = (ANSWERS[number % len(ANSWERS)] for number in range(count))
    return [(gold.format(first + i), answer.format(first + i)) for i, (gold, answer) in enumerate(kinds)]


def math_body(gold: str, answer: str) -> dict:
    return {"gen_responses": [rf"\boxed{{{answer}}}"], "extra": {"ground_truth": gold}}


def say(what: str, figure: float, unit: str, second: float | None = None, meaning: str = "") -> None:
    more = "" if second is None else f"   {second:.2f} {meaning}"
    print(f"{what:36} {figure:9.1f} {unit}{more}", flush=True)
