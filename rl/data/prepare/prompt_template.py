"""The prompts: one message of the user, to which the model's chat template is applied when it is sampled."""

import re
from bisect import bisect_left
from collections.abc import Callable

from rl.data.prepare.schema import Schema

# The block that a model is shown must be the one that the scorer strips (docs/explanation/scoring.md).
_SQL_TEMPLATE = """\
Your task:
You are an expert in databases. Given are the schema of a database and a question about its content. Work out which \
tables and columns the question is about, and write one SQL query whose result answers it.

Database engine:
SQLite

Database schema:
{definitions}
These statements show every table with its columns, types, primary keys and foreign keys. Where a comment stands \
behind a column, it gives some of the values that are stored in it.

Question:
{question}
{evidence}
Instructions:
- Select the columns that the question asks for, in the order in which it asks for them, and no others.
- Return all rows that belong to the answer, and no row that does not.
- Write names as the schema has them, in backticks where it does so, and text values as they are stored.
- Think through the steps of the query before you write it.

Output format:
End your answer with the query in a code block of this form:
```sql
-- Your SQL query
```
"""
_EVIDENCE = """
What to know for this question:
{evidence}
"""
_MATH_TEMPLATE = "{problem}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
_SQL_QUESTION = re.compile(r"^Question:\n(.+?)\n\n", re.MULTILINE | re.DOTALL)


def sql_prompt(definitions: str, question: str, evidence: str) -> str:
    """The message for a question.

    Args:
        definitions: the CREATE TABLE statements.
        evidence: what the benchmark says beside the question, or "".
    """
    section = _EVIDENCE.format(evidence=evidence) if evidence else ""
    return _SQL_TEMPLATE.format(definitions=definitions, question=question, evidence=section)


def fit_sql_prompt(schema: Schema, question: str, evidence: str, fits: Callable[[str], bool]) -> tuple[str, int] | None:
    """(the message, how many tables show no values in it), with as many tables' values as fit.

    Tables lose their values one by one, the largest values first. None when it does not fit without any.
    """
    complete = sql_prompt(schema.complete, question, evidence)
    if fits(complete):
        return complete, 0

    def message(tables_without_examples: int) -> str:
        return sql_prompt(schema.definitions(tables_without_examples), question, evidence)

    numbers = range(1, schema.tables_with_examples + 1)
    first = bisect_left(numbers, True, key=lambda number: fits(message(number)))
    return (message(numbers[first]), numbers[first]) if first < len(numbers) else None


def math_prompt(problem: str) -> str:
    """The message for a problem, which asks for the final answer in a box."""
    return _MATH_TEMPLATE.format(problem=problem)


def question_of(message: str) -> str:
    """The question or problem in a message of these templates; the whole of any other message."""
    if found := _SQL_QUESTION.search(message):
        return found.group(1)
    return message.removesuffix(_MATH_TEMPLATE.format(problem=""))
