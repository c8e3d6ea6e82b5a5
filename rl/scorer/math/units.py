r"""Units of measurement and money at the end of an answer, so that 5\text{ m} is 500\text{ cm} but not 5\text{ kg}.

A unit is read in \text or a command like it, or as a plain word of two letters or more after a number (5 km/h), or of
one letter if the other answer has a unit: else 5 m may be a product. A unit that UNITS lacks, such as apples, is left
to math-verify, which drops \text.
"""

import re
from collections import Counter
from fractions import Fraction
from typing import NamedTuple


class Unit(NamedTuple):
    """What a unit measures, as powers of base dimensions, and its size in base units (m, kg, s, dollar)."""

    dimensions: frozenset[tuple[str, int]]
    size: Fraction


# Each name with its dimension, the power of it, and its size.
UNITS: dict[str, tuple[str, int, Fraction]] = {
    name: (dimension, power, Fraction(size))
    for dimension, power, size, names in (
        ("length", 1, "1/1000", "mm millimeter millimetre 毫米"),
        ("length", 1, "1/100", "cm centimeter centimetre 厘米"),
        ("length", 1, "1/10", "dm decimeter decimetre 分米"),
        ("length", 1, "1", "m meter metre 米"),
        ("length", 1, "1000", "km kilometer kilometre 千米 公里"),
        ("length", 1, "0.0254", "in inch inches"),
        ("length", 1, "0.3048", "ft foot feet"),
        ("length", 1, "0.9144", "yd yard"),
        ("length", 1, "1609.344", "mi mile"),
        ("length", 3, "1/1000", "L l liter litre 升"),
        ("length", 3, "1/1000000", "mL ml milliliter millilitre 毫升"),
        ("mass", 1, "1/1000000", "mg milligram"),
        ("mass", 1, "1/1000", "g gm gram 克"),
        ("mass", 1, "1", "kg kilogram 千克 公斤"),
        ("mass", 1, "0.45359237", "lb pound"),
        ("mass", 1, "0.028349523125", "oz ounce"),
        ("time", 1, "1/1000", "ms millisecond 毫秒"),
        ("time", 1, "1", "s sec second 秒"),
        ("time", 1, "60", "min minute 分钟"),
        ("time", 1, "3600", "h hr hour 小时"),
        ("time", 1, "86400", "day 天"),
        ("time", 1, "604800", "week"),
        ("money", 1, "1", "dollar USD"),
        ("money", 1, "1/100", "cent"),
        ("euros", 1, "1", "EUR euro"),
        ("sterling", 1, "1", "GBP"),
        # ¥ is the sign of both.
        ("yen, yuan", 1, "1", "JPY yen CNY RMB yuan 元"),
        ("rupees", 1, "1", "INR Rs rupee"),
    )
    for name in names.split()
}
SPACE = r"(?:\s|\\[ ,;:!])"
_GAP = rf"{SPACE}*"
_POWER = r"(?:\^\{?(?P<power>[23])\}?)?"
_COMMAND = re.compile(r"\\(?:text|textrm|mathrm|mbox|rm)\s*\{")
_IN_TEXT = re.compile(rf"(?P<number>.*?){_GAP}{_COMMAND.pattern}(?P<unit>[^{{}}]*)\}}{_POWER}", re.DOTALL)
_NUMBER = r"(?:[\d\s.,/{}^+()-]|\\(?:[dt]?frac|pi|sqrt|times|cdot|[,!]))*[\d})]"
_PLAIN = re.compile(
    rf"(?P<number>{_NUMBER})(?P<gap>{_GAP})"
    rf"(?P<unit>(?:(?:square|cubic) )?[A-Za-z][A-Za-z]+|[A-Za-z ]+(?:/| per )[A-Za-z ]+){_POWER}"
)
_LETTER = re.compile(rf"(?P<number>{_NUMBER})(?P<gap>{_GAP})(?P<unit>[A-Za-z]){_POWER}")
_DOLLARS = re.compile(r"(?P<number>-?)\\?\$\s*(?P<rest>[\d.,{}]+)")
_FACTOR = re.compile(
    r"(?P<word>square |sq\.? |cubic |cu\.? |平方|立方)?(?P<name>[^\W\d_]+)\.?(?:\^\{?(?P<power>[23])\}?)?"
)
_WORDS = {"s": 2, "平": 2, "c": 3, "立": 3}
# One of the amounts of 2\text{ hours }30\text{ minutes}.
_AMOUNT = re.compile(
    rf"{_GAP}(?:{_COMMAND.pattern}\s*and\s*\}})?{_GAP}(?P<number>\d[\d.]*){_GAP}"
    rf"(?:{_COMMAND.pattern}\s*(?P<text>[^{{}}]*?)(?:\s+and)?\s*\}}|(?P<plain>[A-Za-z]+))"
)


def split_unit(answer: str, *, glued: bool = True) -> tuple[str, Unit | None]:
    """The answer without its unit, and the unit if it is known.

    Args:
        glued: read a plain word right after its number too: 5cm, but also 2mg, which may be a product.
    """
    if amounts := _sum_of_amounts(answer):
        return amounts
    if dollars := _DOLLARS.fullmatch(answer):
        return dollars["number"] + dollars["rest"], _unit("dollar", 1)
    for pattern in (_IN_TEXT, _PLAIN):
        found = pattern.fullmatch(answer)
        # `2\text{ hours } 30\text{ min}` has more than one unit.
        if not found or not found["number"].strip() or _COMMAND.search(found["number"]):
            continue
        if pattern is _PLAIN and not found["gap"] and not glued:
            continue
        if unit := _unit(found["unit"], int(found["power"] or 1)):
            return found["number"].strip(), unit
    return answer, None


def _sum_of_amounts(answer: str) -> tuple[str, Unit] | None:
    r"""\frac{5}{2} and hours, for 2\text{ hours }30\text{ minutes}: each amount is less than one of the unit before."""
    total, first, last, read = Fraction(0), None, None, 0
    while found := _AMOUNT.match(answer, read):
        unit, read = _unit(found["text"] or found["plain"] or "", 1), found.end()
        try:
            amount = Fraction(found["number"]) * (unit.size if unit else 0)
        except ValueError:
            return None
        if unit is None or last is not None and (unit.dimensions != last.dimensions or amount >= last.size):
            return None
        total, first, last = total + amount, first or unit, unit
    if first is None or first is last or answer[read:].strip():
        return None
    value = total / first.size
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}", first


def split_letter(answer: str, *, glued: bool = True) -> tuple[str, Unit | None]:
    """The answer without its unit of one letter, as in 5 m, and the unit if it is known. glued: see split_unit."""
    found = _LETTER.fullmatch(answer)
    unit = _unit(found["unit"], int(found["power"] or 1)) if found and (glued or found["gap"]) else None
    return (found["number"].strip(), unit) if found and unit else (answer, None)


def _unit(text: str, power: int) -> Unit | None:
    """Read `square cm`, `m/s` or `meters per second`; `power` belongs to the last name."""
    parts = [part.strip() for part in re.split(r"/| per ", text.strip())]
    dimensions: Counter[str] = Counter()
    size = Fraction(1)
    for position, part in enumerate(parts):
        factor = _FACTOR.fullmatch(part)
        known = _known(factor["name"]) if factor else None
        if factor is None or known is None:
            return None
        exponent = _WORDS[factor["word"][0]] if factor["word"] else int(factor["power"] or 1)
        exponent *= (power if position == len(parts) - 1 else 1) * (-1 if position else 1)
        dimension, own, one = known
        dimensions[dimension] += own * exponent
        size *= one**exponent
    return Unit(frozenset(item for item in dimensions.items() if item[1]), size)


def _known(name: str) -> tuple[str, int, Fraction] | None:
    """A unit by its symbol, or by its name in any case, in the singular or the plural."""
    word = name.lower()
    found = UNITS.get(name)
    if found is None and len(word) > 2:
        found = UNITS.get(word) or UNITS.get(word.removesuffix("s"))
    return found
