r"""Compares two answers: math-verify decides what is left after notation.py and this module.

- Equal texts are equal answers, after blanks are normalised and a full stop at the end is removed (math-verify reads
  nothing in a text that ends with one).
- `paired` decides what neither answer shows alone: units, a missing percent sign, different bases and moduli, the order
  of a=3, b=5, a set or a pair.
- `equal` also compares an inequality with an interval, but not with the list of its ends. exact.py compares numbers.
- Numbers in a row, such as `5 7` or `5 \quad 7`, equal no single number: math-verify would add them.

tests/scorer/math/test_compare.py has its cases; pairs.tsv there is a fixed measurement.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from math_verify import LatexExtractionConfig, parse, verify
from math_verify.parser import extract_latex, parse_expr_cached, parse_latex_cached
from sympy import And, Basic, Eq, Expr, FiniteSet, Intersection, MatrixBase, Reals, Set, Union
from sympy.core.cache import clear_cache
from sympy.core.relational import Relational

from rl.scorer.math import exact, library  # noqa: F401  (they change math-verify)
from rl.scorer.math.notation import IN_TEXT, WIDE_SPACE, mixed_number
from rl.scorer.math.parts import (
    as_ratios,
    is_curve,
    is_unsolved,
    items,
    with_both_signs,
    without_condition,
    without_derivation,
    without_label,
)
from rl.scorer.math.units import split_letter, split_unit

# What math-verify reads from an answer: expressions, the most trusted first, and finally the text itself.
Parsed = tuple[Basic | MatrixBase | str, ...]

# Without digits that belong to a command, a power or an index: \frac12 3, 2^3 4, \log_2 8.
_IN_A_ROW = re.compile(rf"(?<![\w^.,}}])\d(?:[\d.,]*\d)?(?:\.(?=\s))?(?:{WIDE_SPACE}|\$|\\[lc]?dots(?![A-Za-z]))+\.?\d")
_WORDS = re.compile(rf"{IN_TEXT}\{{([^{{}}]*)\}}")
_COMMA_OF_WORDS = re.compile(r"(?<=[A-Za-z]),\s*(?=[A-Za-z])")
# 2e-1 as a whole answer is 0.2, unless the other answer has Euler's number.
_E_OR_EULER = re.compile(r"([-+]?\d+)e([-+]\d+)")
_EULER = re.compile(r"(?<![A-Za-z])e(?![A-Za-z])")
_PERCENT = re.compile(r"\\?%$")
# Of money, beside an answer with £; else of mass.
_POUNDS = re.compile(r"(?<![A-Za-z])pounds?(?![A-Za-z])")
_BASE = re.compile(r"\d_\{?(\d+)\}?$")
# math-verify divides 2:30, as it divides the ratio 3:4, and cannot divide 9:00. It is a time of day if one of the
# answers says so: by a first zero, a whole hour or words such as \text{pm}.
_CLOCK = re.compile(rf"(?P<zero>0)?(?P<time>\d{{1,2}}:(?P<minutes>[0-5]\d))\s*(?P<words>{IN_TEXT}\{{[^{{}}]*\}})?")
_VARIABLE = re.compile(r"(?<![\\A-Za-z])[A-Za-z](?![A-Za-z])")
# Words that one question can have as different answers, such as 3 am and 3 pm.
_OPPOSITES = {
    word: (group, opposite)
    for group in (
        *("am|pm", "bc bce|ad ce", "n north|s south|e east|w west", "c|f", "increase|decrease", "profit gain|loss"),
        *("up|down", "left|right", "more|less fewer"),
    )
    for opposite in group.split("|")
    for word in opposite.split()
}
_FLAT_SET = re.compile(r"(?:\\left)?\\\{[^{}()\[\]]*,[^{}()\[\]]*(?:\\right)?\\\}")
_FLAT_PAIR = re.compile(r"(?:\\left)?[(\[][^{}()\[\]]*,[^{}()\[\]]*(?:\\right)?[)\]]")
_EITHER = re.compile(r"(?<![A-Za-z\\])or(?![A-Za-z])|\\(?:lor|vee)(?![A-Za-z])")
_COMMA = rf"(?<!\\)[,;]{WIDE_SPACE}*"
_SEPARATOR = re.compile(rf"{WIDE_SPACE}*(?:(?:{_COMMA})?\\text\{{ and \}}|{_COMMA})\s*")
_VALUE_OF = re.compile(r"(\\?[A-Za-z]|\\[A-Za-z]+)\s*=\s*([^=]+)")
_MEMBER = re.compile(r"\\in(?![A-Za-z])")
# As notation.py writes it.
_MODULUS = re.compile(rf"{WIDE_SPACE}*\\pmod\{{((?:[^{{}}]|\{{[^{{}}]*\}})+)\}}")
# math-verify reads the last number of "\geq 9", of "2 \& 9" and of "1, \ldots, 9".
_RELATION = re.compile(
    r"[<>≤≥≠]|\\(?:n?[lg]eq?q?|n?[lg]eqslant|neq?|lt|gt|ll|gg|nless|ngtr|lesssim|gtrsim|not\s*(?:[=<>]|\{[=<>]\}))(?![A-Za-z])|\\&"
    r"|,.*(?:\\[lc]?dots(?![A-Za-z])|\.\.\.)"
)
# And of "x = 2 \lor x = 9" and "2 | 9". Signs of a derivation are like "=": the right side is the answer.
_NUMBER = r"[-+]?\s*(?:\d[\d.,]*|\\[dt]?frac\s*\{[^{}]*\}\s*\{[^{}]*\})"
_ALTERNATIVES = re.compile(
    r"\\(?:lor|land|vee|wedge)(?![A-Za-z])"
    rf"|^{_NUMBER}\s*(?:[?@#&]|//|\|(?!.*\|)|\\\||\\(?:mid|cup|cap|parallel|in|subset)(?![A-Za-z]))\s*{_NUMBER}"
)
# What these may equal: an interval, a set, a list.
_MANY = re.compile(r"[,;]|\\(?:\{|lbrace|infty|mathbb|emptyset|varnothing|cup)")
# The answer is already extracted and goes into a box.
_TARGETS = (LatexExtractionConfig(boxed_match_priority=0),)
# Words of a statement about an answer, such as 7 \text{ is wrong}, and of a lower and an upper bound.
_STATEMENTS = tuple(
    re.compile(rf"(?<![A-Za-z\\])(?:{words})(?![A-Za-z])", re.IGNORECASE)
    for words in (
        "is|are|isn't|not|no|wrong|incorrect|false|never|cannot",
        "at least|or (?:more|greater|higher|above|over|later|older)",
        "at most|or (?:less|fewer|lower|below|under|earlier|younger)",
    )
)
_APPROX = re.compile(r"\\approx(?![A-Za-z])")
_MOST_ITEMS = 20
_THOUSANDS = re.compile(r"(?<=\d)(?:,(?:\\!)?|\{,\})(?=\d{3}(?!\d))")
# Dots between the items of a list, between the terms of a sum or after a whole number are a symbol like these, and not
# the digits that follow a decimal.
_MORE = r"\1 \\Upsilon "
_DOTS = re.compile(r"((?<![\d.])\d+|(?<![\d\s]))\s*\\ldots|\\ldots(?=\s*[,;+*-])")


def same_text(gold: str, pred: str) -> bool:
    r"""Whether two bare answers are the same text, in \text or not."""
    one, other = (_COMMA_OF_WORDS.sub(", ", _WORDS.sub(r" \1 ", answer)).split() for answer in (gold, pred))
    return one == other


def paired(gold: str, pred: str) -> tuple[str, str] | None:
    """Two bare answers as they are compared with each other; None if they are different.

    A word such as am or loss counts only if the other answer has its opposite.
    A known unit counts only if both answers have one; 2mg and 2 m are products if the other one has none, and so is 2 m
    beside 2m cm. A percent sign may be missing where the number is 1 or more.
    """
    if any(bool(words.search(gold)) != bool(words.search(pred)) for words in _STATEMENTS):
        return None
    if (values := without_condition(gold, without_derivation(gold, pred))) is None:
        return None
    if "=" not in values[0] and is_unsolved(values[1]):
        return None
    if "=" not in values[1] and is_curve(values[0]) and not _is_a_relation(values[0]):
        return None
    if (values := as_ratios(*without_label(*values))) is None:
        return None
    gold, pred = values
    # math-verify reads a set, in which 5, 5 is 5.
    if _is_one_value(gold) and not _is_a_list(with_both_signs(gold)) and _is_a_list(pred) and not split_unit(pred)[1]:
        return None
    words = _OPPOSITES.get(_word(gold)), _OPPOSITES.get(_word(pred))
    if words[0] and words[1] and words[0] != words[1] and words[0][0] == words[1][0]:
        return None
    times = [found for found in map(_CLOCK.fullmatch, (gold, pred)) if found]
    if len(times) == 2 and any(found["zero"] or found["words"] or found["minutes"] == "00" for found in times):
        return ("1", "1") if times[0]["time"] == times[1]["time"] else None
    gold, pred = _as_power_of_ten(gold, pred), _as_power_of_ten(pred, gold)
    bases = _BASE.search(gold), _BASE.search(pred)
    if bases[0] and bases[1] and bases[0][1] != bases[1][1]:
        return None
    if (residues := _residues(gold, pred)) is None:
        return None
    gold, pred = _in_order(*residues)
    # Of 1, 1, 2 math-verify would read fewer values than of (1, 1, 2).
    if _FLAT_PAIR.fullmatch(gold) and _repeats(pred):
        pred = f"({pred})"
    elif _FLAT_PAIR.fullmatch(pred) and _repeats(gold):
        gold = f"({gold})"
    if any(_FLAT_PAIR.fullmatch(one) and _has_no_order(other) for one, other in ((gold, pred), (pred, gold))):
        return None
    if any(_is_a_relation(one) and _is_one_value(other) for one, other in ((gold, pred), (pred, gold))):
        return None
    if (percents := _without_percent(gold, pred)) is not None:
        return percents
    if "GBP" in gold + pred:
        gold, pred = (_POUNDS.sub("GBP", answer) for answer in (gold, pred))
    (number, unit), (value, other) = split_unit(gold), split_unit(pred)
    if unit is not None and _PERCENT.search(pred) or other is not None and _PERCENT.search(gold):
        return None
    of_gold, of_pred = split_letter(gold), split_letter(pred)
    if unit is None and other is None:
        if of_gold[1] and of_pred[1]:
            return (of_gold[0], of_pred[0]) if of_gold[1] == of_pred[1] else None
        # 5m is a product as the right answer, but not where a number is.
        spaced = split_letter(gold, glued=False)
        if not _VARIABLE.search(gold if of_pred[1] else pred):
            return spaced[0], of_pred[0]
    elif unit is None and not _VARIABLE.search(value):
        number, unit = of_gold
    elif other is None and not _VARIABLE.search(number):
        value, other = of_pred
    if unit is None or other is None:
        return split_unit(gold, glued=False)[0], split_unit(pred, glued=False)[0]
    if unit == other:
        return number, value
    if unit.dimensions != other.dimensions:
        return None
    ratio = other.size / unit.size
    return number, rf"({_THOUSANDS.sub('', value)}) \cdot \frac{{{ratio.numerator}}}{{{ratio.denominator}}}"


def _word(answer: str) -> str:
    r"""The content of the only \text, at the end."""
    found = _WORDS.findall(answer) if answer.endswith("}") else []
    return found[0].strip().lower().replace(".", "") if len(found) == 1 else ""


def _is_a_relation(answer: str) -> bool:
    r"""x > 3, \geq 3 and 7 \lor 8."""
    return any(pattern.search(answer) for pattern in (_RELATION, _ALTERNATIVES))


def _is_one_value(answer: str) -> bool:
    return not any(pattern.search(answer) for pattern in (_RELATION, _ALTERNATIVES, _MANY))


def _is_a_list(answer: str) -> bool:
    return len(items(_THOUSANDS.sub("", answer))) > 1 or bool(_EITHER.search(answer))


def _repeats(answer: str) -> bool:
    """1, 2, 2, which math-verify reads as a set; longer lists are left to it."""
    found = items(answer)
    return len({*found}) < len(found) <= _MOST_ITEMS and not _THOUSANDS.search(answer)


def _has_no_order(answer: str) -> bool:
    r"""\{3, 5\} or 3 \text{ or } 5, but not x < 3 \text{ or } x > 5, which may be an interval."""
    return bool(_FLAT_SET.fullmatch(answer) or _EITHER.search(answer) and not _RELATION.search(answer))


def _residues(gold: str, pred: str) -> tuple[str, str] | None:
    r"""The answers without their modulus, which only one of them needs; None if two moduli differ.

    In a system with several moduli, x \equiv 1 \pmod{4} becomes x \equiv 1 + 4 \Omega.
    """
    moduli, others = (frozenset(_MODULUS.findall(answer)) for answer in (gold, pred))
    several = max(len(moduli), len(others)) > 1
    if moduli != others and (several or moduli and others):
        return None
    kept = r" + \\Omega \\cdot (\1)" if several else ""
    return _MODULUS.sub(kept, gold), _MODULUS.sub(kept, pred)


def _in_order(gold: str, pred: str) -> tuple[str, str]:
    """(3, 5) for the gold answer a=3, b=5 and for 3, 5; both as they are if variables are not in alphabetical order."""
    values = [_VALUE_OF.fullmatch(part) for part in _SEPARATOR.split(gold)]
    letters = [value[1] for value in values if value]
    if len(letters) < 2 or letters != sorted(set(letters)) or not all(values) or r"\pm" in gold:
        return gold, pred
    if "=" in pred or _MEMBER.search(pred) or _RELATION.search(pred):
        return gold, pred
    in_gold = f"({', '.join(value[2] for value in values if value)})"
    parts = _SEPARATOR.split(pred)
    return in_gold, pred if len(parts) < 2 or pred.startswith(("(", "[", r"\{", r"\left")) else f"({', '.join(parts)})"


def _as_power_of_ten(answer: str, other: str) -> str:
    r"""2 \times 10^{-1} for 2e-1, if the other answer has no e."""
    found = _E_OR_EULER.fullmatch(answer)
    return rf"{found[1]} \times 10^{{{int(found[2])}}}" if found and not _EULER.search(other) else answer


def _without_percent(gold: str, pred: str) -> tuple[str, str] | None:
    r"""12.5 for 12.5\%, if only one has the sign and the numbers are equal."""
    numbers = _PERCENT.sub("", gold), _PERCENT.sub("", pred)
    if (numbers[0] == gold) == (numbers[1] == pred):
        return None
    try:
        values: list[Fraction | float] = [mixed_number(number) or float(number) for number in numbers]
    except ValueError:
        return None
    return numbers if values[0] == values[1] and abs(float(values[0])) >= 1 else None


def has_numbers_in_a_row(answer: str) -> bool:
    """Whether only blanks or dots separate two numbers of a bare answer."""
    return _IN_A_ROW.search(answer) is not None


def parse_answer(answer: str) -> Parsed:
    r"""math-verify's reading of a bare answer: only text, or nothing, if it cannot read it.

    \frac{40}{3} \approx 13.33 is either number, and nothing unless the second is the first one rounded.
    """
    text = _DOTS.sub(_MORE, with_both_signs(answer))
    if len(sides := _APPROX.split(text)) == 2:
        value, near = ((*_parse(side), None)[0] for side in sides)
        if isinstance(value, Expr) and value.is_number:
            return _if_rounded(value, near, sides[1])
    return _parse(text)


def _parse(text: str) -> Parsed:
    return tuple(parse(rf"\boxed{{{text}}}", _TARGETS, parsing_timeout=None))


def _if_rounded(value: Expr, near: Basic | None, text: str) -> Parsed:
    if not (isinstance(near, Expr) and near.is_number):
        return ()
    decimals = re.search(r"\.(\d+)", text)
    places = len(decimals[1]) if decimals else 0
    if not abs(value - near).evalf() < 10**-places:
        return ()
    return (value, near) if places > 1 else (value,)


def readable(parsed: Parsed) -> bool:
    """Whether an expression was read."""
    return any(not isinstance(item, str) for item in parsed)


def same(gold: str, pred: str, read_gold: Callable[[str], Parsed]) -> bool:
    """Whether two bare answers are equal.

    Args:
        read_gold: parse_answer, or one that keeps what it has parsed.
    """
    if same_text(gold, pred):
        return True
    if (answers := paired(gold, pred)) is None:
        return False
    gold, pred = answers
    parsed, other = read_gold(gold), parse_answer(pred)
    golds, preds = items(with_both_signs(gold)), items(with_both_signs(pred))
    if readable(parsed) and readable(other) and not (_repeats(gold) and len(preds) > 1):
        return equal(parsed, other) and (has_numbers_in_a_row(gold) or not has_numbers_in_a_row(pred))
    # A list in which math-verify reads each item, but not all of them together, or as a set: each equals another one.
    if len(golds) != len(preds) or not 1 < len(golds) <= _MOST_ITEMS:
        return False
    for item in golds:
        if (found := next((one for one in preds if same(item, one, read_gold)), None)) is None:
            return False
        preds.remove(found)
    return True


def readable_gold(gold: str, read_gold: Callable[[str], Parsed]) -> bool:
    """Whether an expression was read in a gold answer, or in each item of a list."""
    value, _ = paired(gold, gold) or (gold, gold)
    if readable(read_gold(value)):
        return True
    several = items(value)
    return 1 < len(several) <= _MOST_ITEMS and all(readable_gold(item, read_gold) for item in several)


def equal(gold: Parsed, pred: Parsed) -> bool:
    """Whether two parsed answers are equal. It is not symmetric: gold decides how equations and sets are read."""
    if any(_is_a_range(one) and _are_values(other) for one, other in ((gold, pred), (pred, gold))):
        return False
    if verify(list(gold), list(pred), timeout_seconds=None):
        return True
    one, other = _region(gold), _region(pred)
    if one is None or other is None or one.variables and other.variables and one.variables != other.variables:
        return False
    # The bounds may be written otherwise: 0.5 and 1/2.
    return verify([one.numbers], [other.numbers], timeout_seconds=None)


def _is_a_range(parsed: Parsed) -> bool:
    r"""An inequality, or x \in (3,5), but not P = (3,5). math-verify compares an open one with a list of its ends."""
    item = parsed[0] if parsed else None
    if isinstance(item, Eq):
        return (
            isinstance(item.rhs, Set)
            and not isinstance(item.rhs, FiniteSet)
            and _MEMBER.search(str(parsed[-1])) is not None
        )
    return isinstance(item, Relational | And)


def _are_values(parsed: Parsed) -> bool:
    """3, 5 or x = 3, x = 5 or x in {3, 5}."""
    item = parsed[0] if parsed else None
    if isinstance(item, Eq):
        return isinstance(item.rhs, FiniteSet)
    return isinstance(item, FiniteSet) and not any(_is_a_range((bound,)) for bound in item.args)


class _Region(NamedTuple):
    """Real numbers, and the variable that has them as values; an interval has no variable."""

    variables: frozenset[Basic]
    numbers: Set


def _region(parsed: Parsed) -> _Region | None:
    """What an interval, x in an interval, an inequality, or a list of inequalities says about one variable.

    A list means "or" (x < 3, x > 5), or "and" where "or" would be true of every number (x > 1, x < 2).
    """
    item = parsed[0] if parsed else None
    if isinstance(item, Eq) and isinstance(item.rhs, Set) and not isinstance(item.rhs, FiniteSet):
        return _Region(frozenset(item.lhs.free_symbols), item.rhs)
    if isinstance(item, Set) and not isinstance(item, FiniteSet):
        return _Region(frozenset(), item)
    bounds = item.args if isinstance(item, FiniteSet) else (item,)
    regions = []
    for bound in bounds:
        if not isinstance(bound, Relational | And) or isinstance(bound, Eq) or len(bound.free_symbols) != 1:
            return None
        try:
            regions.append(_Region(frozenset(bound.free_symbols), bound.as_set()))
        except NotImplementedError:
            return None
    variables = frozenset().union(*(region.variables for region in regions))
    if len(variables) != 1:
        return None
    numbers = [region.numbers for region in regions]
    either = Union(*numbers)
    return _Region(variables, Intersection(*numbers) if either == Reals else either)


def forget() -> None:
    """Empty the caches of sympy and math-verify, which an interrupted comparison may have left half filled."""
    clear_cache()
    for cached in (parse_latex_cached, parse_expr_cached, extract_latex):
        cached.cache_clear()
