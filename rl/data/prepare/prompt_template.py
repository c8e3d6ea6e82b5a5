"""The prompts: one message of the user. Sampling applies the model's chat template to it."""

import re
from bisect import bisect_left
from collections.abc import Callable

from rl.data.prepare.schema import DEFAULT_LAYOUT, Layout, Schema

# The scorer strips exactly this code block (docs/reference/scorer.md).
_SQL_TEMPLATE = """\
Your task:
You are an expert in databases. Given are the schema of a database and a question about its content. Work out which \
tables and columns the question is about, and write one SQL query whose result answers it.

Database engine:
{engine}

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
- Write names as the schema has them, in {quotes} where it does so, and text values as they are stored.
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
# OmniSQL's template (RUCKBReasoning/OmniSQL), word for word, because its models were trained with it alone.
_OMNISQL_TEMPLATE = """\
Task Overview:
You are a data science expert. Below, you are provided with a database schema and a natural language question. Your \
task is to understand the schema and generate a valid SQL query to answer the question.

Database Engine:
{engine}

Database Schema:
{definitions}
This schema describes the database's structure, including tables, columns, primary keys, foreign keys, and any \
relevant relationships or constraints.

Question:
{question}

Instructions:
- Make sure you only output the information that is asked in the question. If the question asks for a specific column, \
make sure to only include that column in the SELECT clause, nothing more.
- The generated query should return all of the information asked in the question without any missing or extra \
information.
- Before generating the final SQL query, please think through the steps of how to write the query.

Output Format:
In your answer, please enclose the generated SQL query in a code block:
```sql
-- Your SQL query
```

Take a deep breath and think step by step to find the correct SQL query.
"""
_MATH_TEMPLATE = "{problem}\n\nPlease reason step by step, and put your final answer within \\boxed{{}}."
_SQL_QUESTION = re.compile(r"^Question:\n(.+?)\n\n", re.MULTILINE | re.DOTALL)


def sql_prompt(
    definitions: str, question: str, evidence: str, engine: str = "SQLite", layout: Layout = DEFAULT_LAYOUT
) -> str:
    """The message for a question.

    Args:
        definitions: the CREATE TABLE statements.
        evidence: the benchmark's hint for the question, or "".
        layout: the definitions' layout, which determines the template.
    """
    if layout.omnisql:
        asked = f"{evidence}\n{question}" if evidence else question
        return _OMNISQL_TEMPLATE.format(definitions=definitions, question=asked, engine=engine)
    section = _EVIDENCE.format(evidence=evidence) if evidence else ""
    quotes = "backticks" if layout.quote == "`" else "double quotes"
    return _SQL_TEMPLATE.format(
        definitions=definitions, question=question, evidence=section, engine=engine, quotes=quotes
    )


def fit_sql_prompt(
    schema: Schema, question: str, evidence: str, fits: Callable[[str], bool], engine: str
) -> tuple[str, int] | None:
    """Return (the message, the number of its tables without values), with the values of as many tables as fit.

    Tables lose their values one by one, the largest values first. None if the message does not fit without any.
    """

    def message(tables_without_examples: int) -> str:
        return sql_prompt(schema.definitions(tables_without_examples), question, evidence, engine, schema.layout)

    if fits(complete := message(0)):
        return complete, 0

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
