"""Questions say what they mean, and the five styles give the answer that is worked out without SQL."""

import operator
import random
import re

import pytest

from rl.demo.questions import (
    COUNT,
    COUNT_WORDS,
    FAMILIES,
    NONE,
    RL_MIX,
    SCHEMAS,
    SHOP,
    STYLE_NAMES,
    Condition,
    Family,
    Mix,
    Question,
    announced_solution,
    draw_question,
    solve,
)

QUESTIONS_PER_CELL = 12
COMPARE = {"=": operator.eq, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}


def draw_of_family(family: Family, schema, seed: int) -> list[Question]:
    weights = tuple(float(other == family) for other in FAMILIES)
    rng = random.Random(seed)
    return [draw_question(rng, [schema], Mix(weights, 0.0)) for _ in range(QUESTIONS_PER_CELL)]


def table_rows(connection, table: str) -> list[dict]:
    cursor = connection.execute(f"SELECT * FROM {table}")
    names = [f"{table}.{column[0]}" for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def meets(row: dict, condition: Condition) -> bool:
    value = condition.value.strip("'")
    return COMPARE[condition.operator](row[condition.column], int(value) if value.isdigit() else value)


def answer_without_sql(connection, question: Question) -> set[tuple]:
    schema = question.schema
    children = [
        row
        for row in table_rows(connection, schema.child.name)
        if all(meets(row, condition) for condition in question.child_conditions)
    ]
    answer = set()
    for parent in table_rows(connection, schema.parent.name):
        if question.parent_condition is not None and not meets(parent, question.parent_condition):
            continue
        key = f"{schema.child.name}.{schema.foreign_key}"
        count = sum(child[key] == parent[f"{schema.parent.name}.id"] for child in children)
        belongs = {NONE: count == 0, COUNT: count >= (question.at_least or 0)}.get(question.family.kind, count > 0)
        if belongs:
            answer.add((parent[question.select],))
    return answer


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_all_styles_give_the_answer(family, databases):
    filled = 0
    for schema in SCHEMAS:
        connection = databases[schema.name]
        for question in draw_of_family(family, schema, seed=11):
            expected = answer_without_sql(connection, question)
            filled += bool(expected)
            for style in STYLE_NAMES:
                sql = announced_solution(question, style)
                assert set(connection.execute(sql)) == expected, (question.text, sql)
    assert filled > QUESTIONS_PER_CELL


def test_solutions_by_hand():
    question = Question(
        schema=SHOP,
        family=FAMILIES[6],
        select="customers.name",
        ambiguous=False,
        child_conditions=(Condition("orders.total", ">", "40", ("total", "above", "40")),),
        parent_condition=Condition("customers.city", "=", "'porto'", ("city", "porto")),
        at_least=2,
        text="",
    )
    assert announced_solution(question, "IN") == (
        "/*IN*/ SELECT customers.name FROM customers WHERE customers.city = 'porto' AND customers.id IN "
        "( SELECT orders.customer_id FROM orders WHERE orders.total > 40 "
        "GROUP BY orders.customer_id HAVING COUNT(*) >= 2 )"
    )
    assert solve(question, "AGG") == (
        "SELECT customers.name FROM customers JOIN orders ON orders.customer_id = customers.id "
        "WHERE customers.city = 'porto' GROUP BY customers.id HAVING TOTAL( orders.total > 40 ) >= 2"
    )


def test_a_question_says_what_it_means():
    rng = random.Random(5)
    for _ in range(300):
        question = draw_question(rng, SCHEMAS, RL_MIX)
        assert question.text.split()[:2] == [question.schema.name, ":"]
        conditions = [*question.child_conditions, *filter(None, [question.parent_condition])]
        assert len(question.child_conditions) == question.family.child_conditions
        assert len({condition.column for condition in question.child_conditions}) == len(question.child_conditions)
        for condition in conditions:
            assert " ".join(condition.words) in question.text
            assert condition.value.strip("'") == condition.words[-1]
        if question.at_least is not None:
            assert re.search(rf" (at least|minimum) ({'|'.join(COUNT_WORDS[question.at_least])}) ", question.text)
