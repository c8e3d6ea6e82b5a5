"""The math demo's questions: word problems with whole numbers, each with a solution in three styles.

Seven families ask for one or two operations, about things in a `Scene`. Fine-tuning draws problems with two operations
rarely, reinforcement learning often.

Half of the problems are ambiguous: "Ada has 12 pens. Hugo has 7 more. How many pens is that?" asks for Hugo's pens
(19) or, less often, for both (31), and the problem does not say which. A policy that always gives the likelier answer
has the higher Pass@1 and no longer solves the other problems.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Of the ambiguous problems, the share whose answer is the second person's number.
AMBIGUOUS_SHARE, FIRST_READING_SHARE = 0.5, 0.7
NAMES = ("Ada", "Hugo", "Mia", "Omar", "Lena", "Ivan", "Rosa", "Felix", "Nina", "Paul", "Clara", "Tom")


@dataclass(frozen=True)
class Scene:
    """The things that are counted, what holds them, and what holds one lot of them."""

    things: str
    holders: str
    holder: str


IN_DOMAIN = (
    Scene("marbles", "bags", "bag"),
    Scene("stickers", "packs", "pack"),
    Scene("books", "boxes", "box"),
    Scene("pens", "cases", "case"),
)
OUT_OF_DOMAIN = (
    Scene("apples", "baskets", "basket"),
    Scene("coins", "jars", "jar"),
    Scene("eggs", "cartons", "carton"),
    Scene("roses", "vases", "vase"),
)


@dataclass(frozen=True)
class Step:
    """`left operator right = result`, in whole numbers; the operator is one of OPERATORS."""

    left: int
    operator: str
    right: int

    @property
    def result(self) -> int:
        return OPERATORS[self.operator][1](self.left, self.right)


OPERATORS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "+": ("plus", lambda left, right: left + right),
    "-": ("minus", lambda left, right: left - right),
    "*": ("times", lambda left, right: left * right),
    "/": ("divided by", lambda left, right: left // right),
}


@dataclass(frozen=True)
class Problem:
    """A word problem.

    Attributes:
        family: its kind, such as "loss".
        ambiguous: whether the text has two readings.
        text: one paragraph.
        steps: the operations of the solution; one of the second's numbers is the first's result.
        term: the solution as one expression, with the usual precedence of the operators.
    """

    family: str
    ambiguous: bool
    text: str
    steps: tuple[Step, ...]
    term: str

    @property
    def answer(self) -> int:
        return self.steps[-1].result


def _gain(rng: random.Random, scene: Scene, first: str, second: str) -> Problem:
    a, b = rng.randint(11, 69), rng.randint(4, 29)
    text = f"{first} has {a} {scene.things}. {second} brings {b} more. How many {scene.things} are there in all?"
    return Problem("gain", False, text, (Step(a, "+", b),), f"{a}+{b}")


def _loss(rng: random.Random, scene: Scene, first: str, second: str) -> Problem:
    b = rng.randint(4, 29)
    a = b + rng.randint(5, 60)
    text = f"{first} has {a} {scene.things} and gives {b} of them to {second}. How many {scene.things} are left?"
    return Problem("loss", False, text, (Step(a, "-", b),), f"{a}-{b}")


def _lots(rng: random.Random, scene: Scene, first: str, second: str) -> Problem:
    n, a = rng.randint(3, 9), rng.randint(3, 12)
    text = f"{first} has {n} {scene.holders} with {a} {scene.things} each. How many {scene.things} does {first} have?"
    return Problem("lots", False, text, (Step(n, "*", a),), f"{n}*{a}")


def _share(rng: random.Random, scene: Scene, first: str, second: str) -> Problem:
    n, a = rng.randint(3, 9), rng.randint(3, 12)
    text = (
        f"{first} puts {n * a} {scene.things} into {n} {scene.holders}, the same number into each. How many "
        f"{scene.things} are in one {scene.holder}?"
    )
    return Problem("share", False, text, (Step(n * a, "/", n),), f"{n * a}/{n}")


def _lots_gain(rng: random.Random, scene: Scene, first: str, second: str) -> Problem:
    n, a, b = rng.randint(3, 9), rng.randint(3, 12), rng.randint(4, 29)
    text = (
        f"{first} buys {n} {scene.holders} of {a} {scene.things}. {second} adds {b} {scene.things}. How many "
        f"{scene.things} do they have?"
    )
    return Problem("lots_gain", False, text, (Step(n, "*", a), Step(n * a, "+", b)), f"{n}*{a}+{b}")


def _lots_loss(rng: random.Random, scene: Scene, first: str, second: str) -> Problem:
    n, a = rng.randint(4, 9), rng.randint(4, 12)
    b = rng.randint(4, n * a - 5)
    text = (
        f"{first} has {n} {scene.holders} with {a} {scene.things} each and loses {b} {scene.things}. How many "
        f"{scene.things} does {first} still have?"
    )
    return Problem("lots_loss", False, text, (Step(n, "*", a), Step(n * a, "-", b)), f"{n}*{a}-{b}")


def _more(rng: random.Random, scene: Scene, first: str, second: str) -> Problem:
    """The ambiguous family: the second person's number, or both persons' together."""
    a, b = rng.randint(5, 39), rng.randint(3, 19)
    text = f"{first} has {a} {scene.things}. {second} has {b} more. How many {scene.things} is that?"
    if rng.random() < FIRST_READING_SHARE:
        return Problem("more", True, text, (Step(a, "+", b),), f"{a}+{b}")
    return Problem("more", True, text, (Step(a, "+", b), Step(a, "+", a + b)), f"{a}+{a}+{b}")


_PLAIN = (_gain, _loss, _lots, _share, _lots_gain, _lots_loss)
# The relative frequencies of _PLAIN.
SFT_MIX = (3, 3, 3, 3, 1, 1)
RL_MIX = (1, 1, 1, 1, 2, 2)


def draw_problem(rng: random.Random, scenes: Sequence[Scene], mix: Sequence[float]) -> Problem:
    """Draw one problem in one of the scenes."""
    scene = rng.choice(scenes)
    first, second = rng.sample(NAMES, 2)
    [family] = rng.choices(_PLAIN, mix)
    return (_more if rng.random() < AMBIGUOUS_SHARE else family)(rng, scene, first, second)


def _equations(problem: Problem) -> str:
    said = [f"{step.left}{step.operator}{step.right}={step.result}." for step in problem.steps]
    return f"Compute {' '.join(said)} The answer is \\boxed{{{problem.answer}}}."


def _words(problem: Problem) -> str:
    said = [f"{step.left} {OPERATORS[step.operator][0]} {step.right} is {step.result}." for step in problem.steps]
    return f"First, {' Then '.join(said)} \\boxed{{{problem.answer}}}"


def _formula(problem: Problem) -> str:
    return f"Let x be the number. x={problem.term}={problem.answer}. So \\boxed{{{problem.answer}}}"


# By the first word of the solution, which the report counts as its style.
STYLES: dict[str, Callable[[Problem], str]] = {"Compute": _equations, "First": _words, "Let": _formula}


def solutions(problem: Problem) -> list[str]:
    """The problem's solution in each of STYLES, as the base model learns to write it, with the answer in a box."""
    return [style(problem) for style in STYLES.values()]
