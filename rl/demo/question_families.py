"""The demo's questions: eight families of graded difficulty, drawn from templates.

A question asks which parents have any, no, or at least N children that meet one or two conditions, in some families
among the parents that meet a condition of their own. A `Mix` sets the frequencies of families and synonyms: what is
rare in fine-tuning and frequent in reinforcement learning is what the base model gets wrong.

Half of the questions are ambiguous, as BIRD's underspecified ones: they ask for "figures", which means the parent's
first number or, less often, its second, and nothing in the prompt says which. A policy that always answers the likelier
reading has the higher Pass@1, and can no longer solve the others.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from rl.demo.schemas import Column, Schema, Table

ANY, NONE, COUNT = "any", "none", "count"


@dataclass(frozen=True)
class Family:
    """A family of questions: how children count, and the number of conditions."""

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
        family_weights: relative frequency of each of FAMILIES.
        zipf_exponent: the i-th of several synonyms (from 1) has relative frequency i ** -zipf_exponent.
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
COMPARISONS = {
    ">": (("above",), ("over",), ("more", "than"), ("beyond",)),
    "<": (("below",), ("under",), ("less", "than"), ("short", "of")),
    ">=": (("at", "least"), ("no", "less", "than")),
    "<=": (("at", "most"), ("up", "to"), ("no", "more", "than")),
}
BOUNDS = range(5, 96)
CATEGORY_SHARE = 0.3
NAME_SHARE = 0.5  # of the questions that are not ambiguous
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
        ambiguous: the text does not say which of the parent's numbers is requested.
        child_conditions: conditions on the counted children.
        parent_condition: condition on the parents, or None.
        at_least: required number of children; None unless the family counts.
        text: one line of lower-case words and numbers, separated by single blanks, the schema's name first.
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
    column, word = _draw_ambiguous_column(rng, schema.parent) if ambiguous else _draw_column(rng, schema.parent, mix)
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


def question_vocabulary(schemas: Sequence[Schema]) -> set[str]:
    """Every word that can occur in a question on one of the schemas."""
    words = {":", "name", AMBIGUOUS_WORD, "of", "with", "where", "and", "?", *VERBS}
    for phrases in (*OPENINGS.values(), COUNT_OPENINGS, *COMPARISONS.values()):
        words.update(word for phrase in phrases for word in phrase)
    for counts in COUNT_WORDS.values():
        words.update(counts)
    words.update(str(bound) for bound in BOUNDS)
    for schema in schemas:
        words.add(schema.name)
        for table in (schema.parent, schema.child):
            words.update(table.words)
            for column in table.columns:
                words.update(column.words)
                words.update(column.categories)
    return words


def _synonym(rng: random.Random, synonyms: Sequence, mix: Mix):
    weights = [rank**-mix.zipf_exponent for rank in range(1, len(synonyms) + 1)]
    return rng.choices(synonyms, weights)[0]


def _draw_column(rng: random.Random, parent: Table, mix: Mix) -> tuple[str, str]:
    """A column of the parent and a word for it."""
    if rng.random() < NAME_SHARE:
        return "name", "name"
    number = rng.choice(parent.numbers)
    return number.name, _synonym(rng, number.words, mix)


def _draw_ambiguous_column(rng: random.Random, parent: Table) -> tuple[str, str]:
    first, second = parent.numbers
    return (first if rng.random() < FIRST_READING_SHARE else second).name, AMBIGUOUS_WORD


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
    operator = rng.choice(tuple(COMPARISONS))
    bound = str(rng.choice(BOUNDS))
    words = (column_word, *_synonym(rng, COMPARISONS[operator], mix), bound)
    return Condition(f"{table.name}.{column.name}", operator, bound, words)
