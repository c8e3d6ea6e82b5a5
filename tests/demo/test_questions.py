"""Questions say what they mean; test_task.py compares the results of the five styles."""

import random
import re

from rl.demo.questions import (
    COUNT_WORDS,
    FAMILIES,
    RL_MIX,
    SCHEMAS,
    SHOP,
    Condition,
    Question,
    announced_solution,
    draw_question,
    solve,
)


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
