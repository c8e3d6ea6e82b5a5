"""Time that dph/pass@k and the style metrics add to a training step in the driver, on one core or two.

    python benchmarks/style_metrics.py [--prompts 128] [--n 16]

A step has the paper's size: prompts x n responses, half of them correct. Queries are as long as BIRD's, and all texts
differ, which is the worst case, because a real policy repeats itself. Each line is the best of 5 steps. Each step has
new queries, so that no cache helps. The variants take turns in one process.
"""

import argparse
import time
from collections.abc import Callable

from rl.metrics import response_groups
from rl.metrics.response_groups import Response, mean_pass_at_k, style_metrics
from rl.metrics.sql_structure import canonical_sql

REPEATS = 5
QUERY = """SELECT T1.name, CAST(SUM(CASE WHEN T2.status = 'shipped' THEN 1 ELSE 0 END) AS REAL) * 100 / COUNT(T2.id)
FROM customers AS T1 INNER JOIN orders AS T2 ON T1.id = T2.customer_id INNER JOIN regions AS T3 ON T1.region = T3.id
WHERE T3.region_name = 'x' AND T2.order_date BETWEEN '2019-01-01' AND '2019-12-31' AND T1.age > {}
GROUP BY T1.name HAVING COUNT(*) > 3 ORDER BY T1.name DESC LIMIT 5"""


def step_of(prompts: int, n: int, first: int) -> list[list[Response]]:
    """Groups of responses whose queries are numbered from `first`."""
    numbers = iter(range(first, first + prompts * n))
    return [
        [Response(s % 2 == 0, "sql", QUERY.format(next(numbers)), "match") for s in range(n)] for _ in range(prompts)
    ]


def pass_at_k(groups: list[list[Response]]) -> None:
    mean_pass_at_k([(len(group), sum(response.correct for response in group)) for group in groups], len(groups[0]))


def unlimited(groups: list[list[Response]]) -> None:
    limit, response_groups.MAX_PARSED = response_groups.MAX_PARSED, 1 << 30
    style_metrics(groups)
    response_groups.MAX_PARSED = limit


def canonical(groups: list[list[Response]]) -> None:
    for group in groups:
        for response in group:
            if response.correct:
                canonical_sql(response.pred)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=128)
    parser.add_argument("--n", type=int, default=16)
    options = parser.parse_args()
    measured: dict[str, Callable[[list[list[Response]]], object]] = {
        "Pass@k": pass_at_k,
        f"styles, about {response_groups.MAX_PARSED} queries (as training does)": style_metrics,
        "styles, all queries": unlimited,
        "syntax trees of all correct queries (as the report does)": canonical,
    }
    best = dict.fromkeys(measured, float("inf"))
    number = 0
    for _ in range(REPEATS):
        for name, measure in measured.items():
            groups = step_of(options.prompts, options.n, number)
            number += options.prompts * options.n
            started = time.perf_counter()
            measure(groups)
            best[name] = min(best[name], time.perf_counter() - started)
    for name, seconds in best.items():
        print(f"{seconds:8.3f} s  {name}")


if __name__ == "__main__":
    main()
