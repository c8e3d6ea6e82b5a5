"""Word problems: every style has the text's answer, and half of the problems have two readings."""

import random
import re

import pytest

from rl.demo.word_problems import (
    AMBIGUOUS_SHARE,
    FIRST_READING_SHARE,
    IN_DOMAIN,
    OUT_OF_DOMAIN,
    RL_MIX,
    STYLES,
    draw_problem,
    solutions,
)
from rl.metrics.styles import BY_OPENING, styled
from rl.scorer.answers import read_answer

# The readings of a family, the likelier one first, from the numbers in the order of its text.
READINGS = {
    "gain": lambda a, b: [a + b],
    "loss": lambda a, b: [a - b],
    "lots": lambda n, a: [n * a],
    "share": lambda whole, n: [whole / n],
    "lots_gain": lambda n, a, b: [n * a + b],
    "lots_loss": lambda n, a, b: [n * a - b],
    "more": lambda a, b: [a + b, 2 * a + b],
}
DRAWS = 3000


def drawn(mix):
    rng = random.Random(0)
    return [draw_problem(rng, IN_DOMAIN + OUT_OF_DOMAIN, mix) for _ in range(DRAWS)]


@pytest.fixture(scope="module")
def problems():
    return drawn(RL_MIX)


def readings(problem) -> list[float]:
    return READINGS[problem.family](*map(int, re.findall(r"\d+", problem.text)))


def test_every_style_has_the_texts_answer_and_equations_that_hold(problems):
    assert {problem.family for problem in problems} == {*READINGS}
    for problem in problems:
        assert problem.answer in readings(problem) and problem.answer > 0
        assert problem.ambiguous == (len(readings(problem)) == 2)
        found = solutions(problem)
        assert [styled(solution, tuple(STYLES), BY_OPENING) for solution in found] == [*STYLES]
        for solution in found:
            assert read_answer(solution) == str(problem.answer)
            for left, right in re.findall(r"([\d+*/-]+)=(\d+)", solution):
                assert eval(left) == int(right)


def test_half_of_the_problems_do_not_say_which_number_they_ask_for(problems):
    ambiguous = [problem for problem in problems if problem.ambiguous]
    first = sum(problem.answer == readings(problem)[0] for problem in ambiguous)
    # Four standard errors of 1,500 draws are 0.05.
    assert abs(len(ambiguous) / DRAWS - AMBIGUOUS_SHARE) < 0.05
    assert abs(first / len(ambiguous) - FIRST_READING_SHARE) < 0.05
