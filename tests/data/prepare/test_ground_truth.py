"""Reference answers as texts, and what math-verify makes of them."""

import math

import pytest

from rl.data.prepare.ground_truth import answer_text, boxed_answer, gsm8k_answer, several_answers
from rl.data.prepare.row_writer import BadRecord
from rl.scorer.math.compare import equal, parse_answer
from rl.scorer.math.notation import bare


def test_answer_text():
    for value, text in [
        (27.0, "27"),
        (27, "27"),
        (0.5, "0.5"),
        (-1e-7, r"-1 \times 10^{-7}"),
        (1e22, r"1 \times 10^{22}"),
        ("025", "25"),
        ("0", "0"),
        ("-025", "-25"),
        ("27.0", "27"),
        ("-007.00", "-7"),
        ("100", "100"),
        ("2.50", "2.50"),
        (" 204 ", "204"),
        ("0.25", "0.25"),
        ("$10-4 n$", "10-4 n"),
        ("$$x$$", "x"),
        ("$x=5$ or $x=3$", "$x=5$ or $x=3$"),
        (r"\$5", r"\$5"),
        ("$5", "$5"),
    ]:
        assert answer_text(value) == text
    for value in (None, "", "  ", "$$", math.nan, math.inf, True, ["1"], {}):
        with pytest.raises(BadRecord):
            answer_text(value)


def test_answers_in_solutions():
    for solution, answer in [
        (r"first \boxed{1}, so \boxed{4.5e33} ergs", r"4.5 \times 10^{33}"),
        (r"\boxed{-4e-2}", r"-4 \times 10^{-2}"),
        (r"\boxed{\frac{1}{2} e^{3}}", r"\frac{1}{2} e^{3}"),
        (r"\boxed{2e}", "2e"),
    ]:
        assert boxed_answer(solution) == answer
    gold, response = (parse_answer(bare(text)) for text in (boxed_answer(r"\boxed{4.5e33}"), r"4.5 \cdot 10^{33}"))
    assert equal(gold, response)
    assert gsm8k_answer("She has 7 #### 3.\n#### 70,000") == "70000"
    with pytest.raises(BadRecord, match="no boxed answer"):
        boxed_answer("Answer: 5")
    with pytest.raises(BadRecord, match="####"):
        gsm8k_answer("The answer is 5.")


def test_several_answers_in_any_order():
    text = several_answers(["$1$", "$7$", "9"], multiple=True)
    assert text == "1, 7, 9"
    assert equal(parse_answer(text), parse_answer("9,1,7"))
    assert several_answers(["$2$"], multiple=False) == "2"
    for values, multiple in ((["1", "2"], False), ([], True), (None, False)):
        with pytest.raises(BadRecord):
            several_answers(values, multiple)
