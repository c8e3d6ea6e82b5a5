"""Which SQL and which mathematical answer a response has."""

import time

from hypothesis import assume, given
from hypothesis import strategies as st

from rl.scorer.answers import TEMPLATE, read_answer, read_sql

SQL_RESPONSES = [
    ("```sql\nSELECT 1\n```", "SELECT 1"),
    ("first ```sql\nSELECT 1\n``` then ```sql\nSELECT 2\n```", "SELECT 2"),
    ("```SQL\nSELECT 1\n```", "SELECT 1"),
    ("```sqlite\nSELECT 1\n```", "SELECT 1"),
    ("```Sqlite SELECT 1```", "SELECT 1"),
    ("```sql SELECT 1```", "SELECT 1"),
    ("```sql\n-- JOIN\nSELECT 1;\n```", "-- JOIN\nSELECT 1;"),
    ("```sql\nSELECT 1\n```\n```python\nprint(1)\n```", "SELECT 1"),
    (f"Answer in the form {TEMPLATE}", None),
    (f"```sql\nSELECT 1\n```\n{TEMPLATE}", "SELECT 1"),
    ("```sql\nSELECT 1\n``` and, cut off, ```sql\nSELECT 2", "SELECT 1"),
    ("```sql\nSELECT 1\n```sql\nSELECT 2\n```", "SELECT 2"),
    ("```sql\nSELECT 1", None),
    ("```\nSELECT 1\n```", None),
    ("```sqlx\nSELECT 1\n```", None),
    ("```python\nSELECT 1\n```", None),
    ("SELECT 1", None),
    ("```sql\n\n```", None),
    ("", None),
    ("```sql\nSELECT a > = 1\n```", "SELECT a >= 1"),
    # Thoughts hold drafts; thoughts that are cut off have no answer behind them.
    ("<think>```sql\nSELECT 1\n```</think>```sql\nSELECT 2\n```", "SELECT 2"),
    ("<think>```sql\nSELECT 1\n```</think>I do not know.", None),
    ("```sql\nSELECT 1\n```</think>I do not know.", None),
    ("<think>```sql\nSELECT 1\n```", None),
    ("```sql\nSELECT 1\n```<think>or```sql\nSELECT 2\n```", "SELECT 1"),
    ("<think>a</think>b<think>```sql\nSELECT 1\n```</think>```sql\nSELECT 2\n```", "SELECT 2"),
]


def test_reads_the_last_closed_sql_block() -> None:
    for response, sql in SQL_RESPONSES:
        assert read_sql(response) == sql, response


RESPONSES = [
    # Boxes.
    (r"so \boxed{5}", "5"),
    (r"$\boxed{\frac{1}{2}}$.", r"\frac{1}{2}"),
    (r"first \boxed{1}, then \boxed{2}", "2"),
    (r"\fbox{7}", "7"),
    (r"\boxed{1} and \fbox{2}", "2"),
    (r"\boxed {5}", "5"),
    ("\\boxed\n{5}", "5"),
    ("\\boxed{a\nb}", "a\nb"),
    (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
    (r"\boxed{\text{a {b} c}}", r"\text{a {b} c}"),
    (r"\boxed{\boxed{3}}", "3"),
    (r"\boxed{x = \fbox{3}}", "3"),
    (r"{ an open brace \boxed{5}", "5"),
    (r"\boxed{5}}", "5"),
    # JSON that was encoded twice, and a line break before a box.
    (r"\\boxed{\\frac{1}{2}}", r"\\frac{1}{2}"),
    (r"1 \\ \\\boxed{5}", "5"),
    # Not closed or empty: an earlier answer counts.
    (r"\boxed{5} hence \boxed{6", "5"),
    (r"\boxed{5}, in a \boxed{}", "5"),
    (r"\boxed{ \boxed{5} and", "5"),
    (r"\boxed{5", None),
    (r"\boxed{}", None),
    (r"\boxedness{5}", None),
    (r"boxed{5}", None),
    # Without braces.
    (r"$\boxed 5$.", "5"),
    (r"\boxed 12, which", "12"),
    (r"\boxed \frac{1}{2}.", r"\frac{1}{2}"),
    (r"\boxed{5} put in \boxed as asked", "5"),
    (r"put it in \boxed to", None),
    # Lines.
    ("Answer: 4\nAnswer: 5\n", "5"),
    ("**Answer:** $5$.", "5"),
    ("**Answer: 5**", "5"),
    ("Answer：5", "5"),
    ("the final ANSWER : 5", "5"),
    (r"Answer: \(5\)", "5"),
    ("Answer: $$5$$", "5"),
    ("Answer:\n\n$$\n5\n$$", "5"),
    ("Answer: $x=2$ or $x=3$", "$x=2$ or $x=3$"),
    (r"Answer: x = \left\{ 1 \right.", r"x = \left\{ 1 \right."),
    ("Answer: (B).", "(B)"),
    ("Answer: 5\nAnswer:", "5"),
    ("Answer: 4\nAnswer: \\boxed{5", "4"),
    (r"Answer: \boxed{5", None),
    ("Answer:", None),
    ("The answer is 5.", None),
    ("unanswer: 5", None),
    # Thoughts hold drafts; thoughts that are cut off have no answer behind them.
    (r"<think>\boxed{1}</think>\boxed{2}", "2"),
    (r"\boxed{1}</think>I do not know.", None),
    (r"<think>\boxed{1}", None),
    # A box comes before a line.
    ("\\boxed{1}\nAnswer: 2", "1"),
    ("", None),
    ("5", None),
]


def test_reads_the_last_box_or_else_the_last_line() -> None:
    for response, answer in RESPONSES:
        assert read_answer(response) == answer, response


BALANCED = st.recursive(
    st.text(st.characters(exclude_characters="{}\\", exclude_categories=("Cs",)), max_size=8)
    | st.sampled_from([r"\{", r"\}", r"\\", r"\frac", r"\left\{"]),
    lambda inner: st.lists(inner | inner.map(lambda text: f"{{{text}}}"), max_size=4).map("".join),
    max_leaves=12,
)


# Text that opens no box of its own.
@given(BALANCED.filter(str.strip), st.text(max_size=20), st.text(st.characters(exclude_characters="\\"), max_size=20))
def test_reads_every_balanced_content_as_it_stands(content: str, before: str, after: str) -> None:
    assume("think>" not in before + content + after)  # it ends, or is not, an answer
    assert read_answer(rf"{before} \boxed{{{content}}} {after}") == content.strip()


@given(st.text(alphabet="\\{}$ \nboxedf5:Answer*.", max_size=60))
def test_reads_any_text_without_an_error(response: str) -> None:
    answer = read_answer(response)
    assert answer is None or (answer and answer in response)


# Each would take minutes or hours if the time were quadratic in the length.
LONG = [
    r"\boxed{" * 150_000,
    r"\boxed{" * 100_000 + "}" * 100_000,
    r"\boxed{ " * 100_000 + "}" * 100_000,
    r"\boxed5" * 150_000,
    (r"\boxed" + " " * 100) * 10_000,
    r"\boxed(" + "{" * 1_000_000,
    "\\" * 1_000_000 + "boxed{",
    "Answer:" * 150_000,
    "Answer: $\n" * 100_000,
    "Answer:" + "\n" * 1_000_000,
    ("answer" + " " * 50 + "*") * 20_000,
    "Answer: " + "*" * 1_000_000,
]


def test_time_is_linear_in_the_response() -> None:
    started = time.process_time()
    for response in LONG:
        read_answer(response)
    assert time.process_time() - started < 60
