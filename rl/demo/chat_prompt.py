"""The prompt of a row: the whole schema and the question, as any language model needs them."""

QUESTION_HEADING = "Question:"

_TEMPLATE = """\
Your task:
You are given the schema of a relational database and a question about its content. Find out which tables and columns \
the question refers to, keeping in mind that it may call them by other names, and write one SQL query whose result is \
the answer.

Database engine:
SQLite

Database schema:
{definitions}
The statements above list all tables with their columns, types, primary keys and foreign keys. A comment behind a \
column shows some of the values that are stored in it.

{heading}
{question}

Instructions:
- Return exactly the column that the question asks for, and no other columns.
- Return every row that belongs to the answer, and none that does not. Order and repetition of rows do not matter.
- Use only tables and columns of the schema, and write text values as they are stored.
- There are often several ways to write a correct query. Any of them is fine.

Output format:
Put the final query into one fenced code block, and write nothing after it:
```sql
SELECT ...
```
"""


def prompt_text(definitions: list[str], question: str) -> str:
    """The user message for a question.

    Args:
        definitions: CREATE TABLE statements.
        question: one line; it follows the line QUESTION_HEADING.
    """
    return _TEMPLATE.format(definitions="\n\n".join(definitions), heading=QUESTION_HEADING, question=question)
