"""The demo's questions: databases, questions drawn from templates, and five SQL solutions of each question.

**Databases.** All four have one form: a parent table (`id`, `name`, one category, two numbers) and a child table (`id`,
a foreign key to the parent, one category, two numbers). Each table and column has synonyms for questions, the usual
one first. Some words mean different columns in different databases.

**Questions.** Eight families of graded difficulty ask which parents have any, no, or at least N children that meet one
or two conditions; in some families the parents meet a condition too. A `Mix` sets the frequencies of families and
synonyms. The base model fails on those that are rare in fine-tuning and frequent in reinforcement learning.

Half of the questions are ambiguous: they ask for "figures", which means the parent's first number or, less often, its
second number, and nothing in the prompt says which. A policy that always gives the likelier answer has the higher
Pass@1 and no longer solves the other questions.

**Solutions.** Each style has one solution, which begins with a comment (`/*JOIN*/ SELECT ...`). Single blanks separate
its words, so that one word is one token of the demo's tokenizer. The solutions' results are equal as sets of rows, as
the comparison "bird" requires.
"""

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

PARENT_ROWS = 80
CHILD_ROWS = 320
NUMBER_RANGE = (1, 99)


@dataclass(frozen=True)
class Column:
    """A column: text if it has categories, otherwise whole numbers in NUMBER_RANGE."""

    name: str
    words: tuple[str, ...]
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table without its key columns: one category and two numbers."""

    name: str
    words: tuple[str, ...]
    category: Column
    numbers: tuple[Column, Column]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.category, *self.numbers)


@dataclass(frozen=True)
class Schema:
    """A database: parents have any number of children, through `child.foreign_key`."""

    name: str
    parent: Table
    child: Table
    foreign_key: str

    @property
    def db_id(self) -> str:
        """The path of the SQLite file below the folder of databases."""
        return f"{self.name}/{self.name}.sqlite"


def _table(name: str, words: str, category: str, values: str, *numbers: str) -> Table:
    """Blanks separate words; a column's first word is its name."""
    first, second = (Column(synonyms.split()[0], tuple(synonyms.split())) for synonyms in numbers)
    return Table(
        name,
        tuple(words.split()),
        Column(category.split()[0], tuple(category.split()), tuple(values.split())),
        (first, second),
    )


SHOP = Schema(
    "shop",
    _table("customers", "customers clients shoppers", "city town", "porto turin bergen cusco luxor",
           "age years", "points credit bonus"),
    _table("orders", "order purchase", "status state", "paid pending shipped returned",
           "total amount price", "items pieces units"),
    "customer_id",
)  # fmt: skip
SCHOOL = Schema(
    "school",
    _table("students", "students pupils learners", "major subject", "biology geology english sports dance",
           "height size", "workload load units"),
    _table("exams", "exam test", "course class", "geometry rhetoric ballet genetics",
           "score mark rating", "hours time effort"),
    "student_id",
)  # fmt: skip
FLIGHTS = Schema(
    "flights",
    _table("pilots", "pilots captains flyers", "base home", "madrid osaka mumbai bogota tunis",
           "seniority years", "salary pay bonus"),
    _table("flights", "flight trip", "airline carrier", "albatross buzzard condor dove",
           "delay lateness time", "distance reach length"),
    "pilot_id",
)  # fmt: skip
CLINIC = Schema(
    "clinic",
    _table("doctors", "doctors physicians medics", "ward department", "heart brain bones skin lungs",
           "shifts load", "grade rank rating"),
    _table("visits", "visit appointment", "reason cause", "vaccine cough fracture allergy",
           "cost fee price", "minutes duration length"),
    "doctor_id",
)  # fmt: skip

IN_DOMAIN = (SHOP, SCHOOL)
OUT_OF_DOMAIN = (FLIGHTS, CLINIC)
SCHEMAS = IN_DOMAIN + OUT_OF_DOMAIN


def fill_database(connection: sqlite3.Connection, schema: Schema, seed: int) -> None:
    """Create the schema's tables in an empty database and fill them with rows that depend only on (seed, schema)."""
    rng = random.Random(f"{seed}/database/{schema.name}")
    parent, child = schema.parent, schema.child
    for table, key in ((parent, "name TEXT"), (child, f"{schema.foreign_key} INTEGER REFERENCES {parent.name} (id)")):
        columns = [f"{column.name} {'TEXT' if column.categories else 'INTEGER'}" for column in table.columns]
        lines = ",\n".join(f"    {line}" for line in ("id INTEGER PRIMARY KEY", key, *columns))
        connection.execute(f"CREATE TABLE {table.name} (\n{lines}\n);")
    parents = [(row, f"{schema.name}_{row:02d}", *_random_values(rng, parent)) for row in range(PARENT_ROWS)]
    children = [(row, rng.randrange(PARENT_ROWS), *_random_values(rng, child)) for row in range(CHILD_ROWS)]
    connection.executemany(f"INSERT INTO {parent.name} VALUES (?, ?, ?, ?, ?)", parents)
    connection.executemany(f"INSERT INTO {child.name} VALUES (?, ?, ?, ?, ?)", children)
    connection.execute(f"CREATE INDEX {schema.foreign_key}_index ON {child.name} ({schema.foreign_key})")
    connection.commit()


def _random_values(rng: random.Random, table: Table) -> tuple:
    return (rng.choice(table.category.categories), *(rng.randint(*NUMBER_RANGE) for _ in table.numbers))


ANY, NONE, COUNT = "any", "none", "count"


@dataclass(frozen=True)
class Family:
    """A family of questions: what it asks about the children, and the number of conditions."""

    name: str
    kind: str
    child_conditions: int = 1
    parent_condition: bool = False


FAMILIES = (
    Family("any1", ANY),
    Family("anyP", ANY, parent_condition=True),
    Family("any2", ANY, child_conditions=2),
    Family("none1", NONE),
    Family("cnt1", COUNT),
    Family("noneP", NONE, parent_condition=True),
    Family("cntP", COUNT, parent_condition=True),
    Family("cnt2P", COUNT, child_conditions=2, parent_condition=True),
)


@dataclass(frozen=True)
class Mix:
    """Sampling distribution of questions.

    Attributes:
        family_weights: the relative frequencies of FAMILIES.
        zipf_exponent: the i-th synonym (from 1) has the relative frequency i ** -zipf_exponent.
    """

    family_weights: tuple[float, ...]
    zipf_exponent: float


SFT_MIX = Mix(family_weights=(8, 3, 3, 3, 3, 0.3, 0.3, 0.1), zipf_exponent=1.5)
RL_MIX = Mix(family_weights=(1, 1, 1, 1, 1, 2, 2, 2), zipf_exponent=0.5)

VERBS = ("show", "list", "give")
OPENINGS = {
    ANY: (("having", "any"), ("with", "some"), ("that", "have", "a")),
    NONE: (("having", "no"), ("without", "any"), ("lacking", "a")),
}
COUNT_OPENINGS = (("having", "at", "least"), ("having", "minimum"))
COUNT_WORDS = {2: ("two", "2"), 3: ("three", "3")}
COMPARISON_PHRASES = {
    ">": (("above",), ("over",), ("more", "than"), ("beyond",)),
    "<": (("below",), ("under",), ("less", "than"), ("short", "of")),
    ">=": (("at", "least"), ("no", "less", "than")),
    "<=": (("at", "most"), ("up", "to"), ("no", "more", "than")),
}
BOUNDS = range(5, 96)
CATEGORY_SHARE = 0.3
NAME_SHARE = 0.5  # the share of unambiguous questions that ask for the name
AMBIGUOUS_WORD = "figures"
AMBIGUOUS_SHARE = 0.5
FIRST_READING_SHARE = 0.7


@dataclass(frozen=True)
class Condition:
    """`column operator value`, the column qualified by its table, and its words in a question."""

    column: str
    operator: str
    value: str
    words: tuple[str, ...]

    @property
    def sql(self) -> str:
        return f"{self.column} {self.operator} {self.value}"


@dataclass(frozen=True)
class Question:
    """A question's text and meaning.

    Attributes:
        select: the requested column of the parent, qualified by its table.
        ambiguous: whether the text leaves open which of the parent's numbers is requested.
        child_conditions: the conditions on the counted children.
        parent_condition: the condition on the parents, or None.
        at_least: the required number of children; None unless the family counts.
        text: one line: the schema's name, then lower-case words and numbers, separated by single blanks.
    """

    schema: Schema
    family: Family
    select: str
    ambiguous: bool
    child_conditions: tuple[Condition, ...]
    parent_condition: Condition | None
    at_least: int | None
    text: str


def draw_question(rng: random.Random, schemas: Sequence[Schema], mix: Mix) -> Question:
    """Draw one question on one of the schemas."""
    schema = rng.choice(schemas)
    (family,) = rng.choices(FAMILIES, mix.family_weights)
    ambiguous = rng.random() < AMBIGUOUS_SHARE
    column, word = _draw_column(rng, schema.parent, mix, ambiguous)
    child_conditions = _draw_child_conditions(rng, schema, family, mix)
    parent_condition = _draw_condition(rng, schema.parent, mix) if family.parent_condition else None
    at_least = rng.choice(tuple(COUNT_WORDS)) if family.kind == COUNT else None

    words = [schema.name, ":", rng.choice(VERBS), word, "of", _synonym(rng, schema.parent.words, mix)]
    if parent_condition is not None:
        words += ["with", *parent_condition.words]
    if at_least is None:
        words += rng.choice(OPENINGS[family.kind])
    else:
        words += [*_synonym(rng, COUNT_OPENINGS, mix), rng.choice(COUNT_WORDS[at_least])]
    words += [_synonym(rng, schema.child.words, mix), "where"]
    for position, condition in enumerate(child_conditions):
        words += ["and"] * (position > 0) + list(condition.words)
    words.append("?")
    return Question(
        schema=schema,
        family=family,
        select=f"{schema.parent.name}.{column}",
        ambiguous=ambiguous,
        child_conditions=child_conditions,
        parent_condition=parent_condition,
        at_least=at_least,
        text=" ".join(words),
    )


def _synonym(rng: random.Random, synonyms: Sequence, mix: Mix):
    weights = [rank**-mix.zipf_exponent for rank in range(1, len(synonyms) + 1)]
    return rng.choices(synonyms, weights)[0]


def _draw_column(rng: random.Random, parent: Table, mix: Mix, ambiguous: bool) -> tuple[str, str]:
    """A column of the parent and a word for it."""
    if ambiguous:
        return parent.numbers[rng.random() >= FIRST_READING_SHARE].name, AMBIGUOUS_WORD
    if rng.random() < NAME_SHARE:
        return "name", "name"
    number = rng.choice(parent.numbers)
    return number.name, _synonym(rng, number.words, mix)


def _draw_child_conditions(rng: random.Random, schema: Schema, family: Family, mix: Mix) -> tuple[Condition, ...]:
    conditions: list[Condition] = []
    while len(conditions) < family.child_conditions:
        condition = _draw_condition(rng, schema.child, mix)
        if all(condition.column != other.column for other in conditions):
            conditions.append(condition)
    return tuple(conditions)


def _draw_condition(rng: random.Random, table: Table, mix: Mix) -> Condition:
    column: Column = table.category if rng.random() < CATEGORY_SHARE else rng.choice(table.numbers)
    column_word = _synonym(rng, column.words, mix)
    if column.categories:
        category = rng.choice(column.categories)
        return Condition(f"{table.name}.{column.name}", "=", f"'{category}'", (column_word, category))
    operator = rng.choice(tuple(COMPARISON_PHRASES))
    bound = str(rng.choice(BOUNDS))
    words = (column_word, *_synonym(rng, COMPARISON_PHRASES[operator], mix), bound)
    return Condition(f"{table.name}.{column.name}", operator, bound, words)


_SYNTAX = (
    "SELECT FROM WHERE AND NOT IN EXISTS JOIN LEFT ON IS NULL WITH AS GROUP BY HAVING "
    "COUNT(*) TOTAL( ( ) = > < >= <= 0 1 matches parent matches.parent"
)


STYLE_NAMES = ("JOIN", "IN", "EXISTS", "CTE", "AGG")


def _solutions(question: Question) -> dict[str, str]:
    """The SQL of each style; pieces that the question does not need are empty."""
    parent, child = question.schema.parent.name, question.schema.child.name
    kind, n = question.family.kind, question.at_least
    id, key, of_parent = f"{parent}.id", f"{child}.{question.schema.foreign_key}", question.parent_condition
    select, join = f"SELECT {question.select} FROM {parent}", f"JOIN {child} ON {key} = {id}"
    conditions = " AND ".join(condition.sql for condition in question.child_conditions)
    where_parent, and_parent, parent_and = "", "", ""
    if of_parent:
        where_parent, and_parent, parent_and = f"WHERE {of_parent.sql}", f"AND {of_parent.sql}", f"{of_parent.sql} AND"
    no, left = ("NOT", "LEFT") if kind == NONE else ("", "")
    # For the styles that count inside a subquery.
    enough = f"GROUP BY {key} HAVING COUNT(*) >= {n}" if kind == COUNT else ""
    children = f"FROM {child} WHERE {key} = {id} AND {conditions}"
    matches = f"WITH matches AS ( SELECT {key} AS parent FROM {child} WHERE {conditions} {enough} ) {select}"
    of_matches = f"JOIN matches ON matches.parent = {id}"
    total = {ANY: "> 0", NONE: "= 0", COUNT: f">= {n}"}[kind]
    styles = {
        "JOIN": f"{select} {join} WHERE {conditions} {and_parent}",
        "IN": f"{select} WHERE {parent_and} {id} {no} IN ( SELECT {key} FROM {child} WHERE {conditions} {enough} )",
        "EXISTS": f"{select} WHERE {parent_and} {no} EXISTS ( SELECT 1 {children} )",
        "CTE": f"{matches} {of_matches} {where_parent}",
        "AGG": f"{select} {left} {join} {where_parent} GROUP BY {id} HAVING TOTAL( {conditions} ) {total}",
    }
    if kind == NONE:
        styles["JOIN"] = f"{select} LEFT {join} AND {conditions} WHERE {key} IS NULL {and_parent}"
        styles["CTE"] = f"{matches} LEFT {of_matches} WHERE matches.parent IS NULL {and_parent}"
    if kind == COUNT:
        styles["JOIN"] += f" GROUP BY {id} HAVING COUNT(*) >= {n}"
        styles["EXISTS"] = f"{select} WHERE {parent_and} ( SELECT COUNT(*) {children} ) >= {n}"
    return styles


def solve(question: Question, style: str) -> str:
    """The question's SQL in one of STYLE_NAMES, without the comment that names the style."""
    # Empty pieces leave double blanks behind.
    return " ".join(_solutions(question)[style].split())


def announced_solution(question: Question, style: str) -> str:
    """The text that the base model learns: the style's comment, then the SQL."""
    return f"/*{style}*/ {solve(question, style)}"


def vocabulary() -> set[str]:
    """Every word that can occur in a question or a solution."""
    words = {":", "name", AMBIGUOUS_WORD, "of", "with", "where", "and", "?", *VERBS, *_SYNTAX.split()}
    words |= {f"/*{style}*/" for style in STYLE_NAMES} | {str(number) for number in (*BOUNDS, *COUNT_WORDS)}
    for phrases in (*OPENINGS.values(), COUNT_OPENINGS, *COMPARISON_PHRASES.values(), COUNT_WORDS.values()):
        words.update(word for phrase in phrases for word in phrase)
    for schema in SCHEMAS:
        words |= {schema.name, f"{schema.parent.name}.id", f"{schema.parent.name}.name"}
        words.add(f"{schema.child.name}.{schema.foreign_key}")
        for table in (schema.parent, schema.child):
            words |= {table.name, *table.words}
            for column in table.columns:
                words |= {f"{table.name}.{column.name}", *column.words, *column.categories}
                words |= {f"'{category}'" for category in column.categories}
    return words
