"""Whether two expressions are equal, without rounding to 0 what is only small; import it before math-verify compares.

math-verify subtracts and drops what is below 10^-15: 100!/98! equals 100!/97!. Here numbers are compared as fractions
where they are rational, else by as many digits as their parts require. A decimal is the fraction that its digits say.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from math_verify import grader
from sympy import (
    Abs,
    Add,
    Basic,
    Dummy,
    Expr,
    Float,
    I,
    Integer,
    Integral,
    MatrixBase,
    Mul,
    Pow,
    Product,
    Rational,
    Sum,
    UnevaluatedExpr,
    expand_log,
    expand_power_base,
    factorial,
    factorial2,
)

# Larger numbers are left to sympy. A million bits are 300,000 digits.
_MOST_BITS = 1_000_000
# Digits beyond those by which the parts of a number differ in size, and the most that a comparison takes.
_SPARE_DIGITS = 25
_MOST_DIGITS = 50_000
# A decimal equals a number that it agrees with to six places; below 0.0001, to six digits. The result of a computation
# with decimals, such as 2^{0.5}, has this many digits in common with what it equals.
_PLACES, _SMALL, _SMALL_SHARE, _ROUNDING = 6, 1e-4, 1e-6, Fraction(1, 10**12)


class _TooLarge(Exception):
    """The number is not rational, or has more bits than are computed."""


def _fraction(expr: Basic) -> Fraction:
    """The value of a rational number. Raises _TooLarge."""
    value = _FRACTIONS.get(expr.func, _no_fraction)(expr)
    if value.numerator.bit_length() + value.denominator.bit_length() > _MOST_BITS:
        raise _TooLarge
    return value


def _no_fraction(expr: Basic) -> Fraction:
    if isinstance(expr, Rational):
        return Fraction(int(expr.p), int(expr.q))
    raise _TooLarge


def _decimal(expr: Float) -> Fraction:
    if not expr.is_finite or abs(expr._mpf_[2]) > _MOST_BITS:
        raise _TooLarge
    return Fraction(str(expr))


def _sum(expr: Add) -> Fraction:
    total = Fraction(0)
    for term in expr.args:
        total += _fraction(term)
    return total


def _product(expr: Mul) -> Fraction:
    total, bits = Fraction(1), 0
    for factor in map(_fraction, expr.args):
        total *= factor
        bits += factor.numerator.bit_length() + factor.denominator.bit_length()
        if bits > 2 * _MOST_BITS:
            raise _TooLarge
    return total


def _power(expr: Pow) -> Fraction:
    base, exponent = map(_fraction, expr.args)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if exponent.denominator != 1 or abs(exponent) * bits > _MOST_BITS or not base and exponent <= 0:
        raise _TooLarge
    return base ** int(exponent)


def _natural(expr: Basic, most: int) -> int:
    value = _fraction(expr)
    if value.denominator != 1 or not 0 <= value <= most:
        raise _TooLarge
    return int(value)


def _factorial(expr: Basic) -> Fraction:
    return Fraction(math.factorial(_natural(expr.args[0], 50_000)))


def _double_factorial(expr: Basic) -> Fraction:
    return Fraction(math.prod(range(_natural(expr.args[0], 20_000), 0, -2)))


_FRACTIONS: dict[type, Callable[..., Fraction]] = {
    Float: _decimal,
    Add: _sum,
    Mul: _product,
    Pow: _power,
    Abs: lambda expr: abs(_fraction(expr.args[0])),
    UnevaluatedExpr: lambda expr: _fraction(expr.args[0]),
    factorial: _factorial,
    factorial2: _double_factorial,
}


def _rational(expr: Expr) -> Fraction | None:
    try:
        return _fraction(expr)
    except _TooLarge:
        return None


def _values(numbers: tuple[Expr, Expr]) -> tuple[list[Expr], int] | None:
    """Both numbers with enough digits, and how many decimal places these have; None if they cannot be evaluated."""
    sizes = [0.0]
    waiting: list[Basic] = list(numbers)
    while waiting:
        part = waiting.pop()
        value = abs(part.evalf(5)) if isinstance(part, Expr) and not isinstance(part, Integer) else None
        if value is not None and value.is_Float and value.is_finite and value:
            sizes.append(abs(value._mpf_[2] + value._mpf_[3]) * math.log10(2))
        if not isinstance(part, Sum | Product | Integral):
            waiting.extend(part.args)
    places = _SPARE_DIGITS + 2 * math.ceil(max(sizes))
    digits = places + _SPARE_DIGITS + math.ceil(max(sizes))
    if digits > _MOST_DIGITS:
        return None
    values = [number.evalf(digits, maxn=2 * digits) for number in numbers]
    known = all(part.is_Rational or part.is_Float for value in values for part in value.as_real_imag())
    return (values, places) if known and all(value.is_finite for value in values) else None


@lru_cache(8)
def same_number(one: Expr, other: Expr) -> bool | None:
    """Whether two numbers are equal; None if one is not a number that can be evaluated."""
    if not (one.is_number and other.is_number):
        return None
    fraction, other_fraction = _rational(one), _rational(other)
    decimal = one.has(Float) or other.has(Float)
    if fraction is not None and other_fraction is not None:
        near = decimal and _close(one, other, _as_sympy(fraction), _as_sympy(other_fraction))
        return fraction == other_fraction or near
    if (found := _values((one, other))) is None:
        return None
    values, places = found
    difference = abs(values[0] - values[1])
    if not decimal:
        return bool(difference < Rational(1, 10**places))
    largest = max(map(abs, values))
    return bool(difference <= _as_sympy(_ROUNDING) * largest) or _close(one, other, *values)


def _as_sympy(fraction: Fraction) -> Rational:
    return Rational(fraction.numerator, fraction.denominator)


def _close(one: Expr, other: Expr, value: Expr, other_value: Expr) -> bool:
    """Whether one is a decimal, and the other agrees with it to its places."""
    if not any(grader.is_atomic_or_pct_atomic(number, Float) for number in (one, other)):
        return False
    largest = max(abs(value), abs(other_value))
    if largest < _SMALL and abs(value - other_value) > _SMALL_SHARE * largest:
        return False
    return bool(value.round(_PLACES) == other_value.round(_PLACES))


def _exact(expr: Expr) -> Expr:
    """With fractions for decimals."""
    return expr.xreplace({number: Rational(str(number)) for number in expr.atoms(Float)})


def _with_imaginary_unit(expr: Expr) -> Expr:
    """With the imaginary unit for i, which math-verify reads as a variable, but not for the index of a sum."""
    return expr.subs({symbol: I for symbol in expr.free_symbols if symbol.name == "i"})


def _apart(expr: Expr) -> Expr:
    r"""\sqrt{a}\sqrt{b} for \sqrt{ab}, \ln a + \ln b for \ln ab: equal where both are defined. \sqrt{x^2} stays |x|."""
    absolute = {part: Dummy(real=True) for part in expr.doit().atoms(Abs)}
    held = expr.doit().xreplace(absolute)
    roots = held.replace(_is_root_of_power, lambda root: root.base.base ** (root.base.exp * root.exp))
    apart = expand_log(expand_power_base(roots, force=True), force=True)
    apart = apart.replace(_is_root_of_power, lambda root: root.base.base ** (root.base.exp * root.exp))
    return apart.xreplace({symbol: part for part, symbol in absolute.items()})


def _is_root_of_power(expr: Basic) -> bool:
    """\\sqrt{a^3} or \\sqrt{1/a}, but not \\sqrt{a^2}."""
    return isinstance(expr, Pow) and isinstance(expr.base, Pow) and bool(expr.base.exp.is_odd)


def _numeric_eq(one: Basic | MatrixBase, other: Basic | MatrixBase, places: int, digits: int) -> bool:
    """math-verify's comparison of numbers and of the numbers in matrices."""
    if not (isinstance(one, Expr) and isinstance(other, Expr)):
        return _numeric_eq_of_math_verify(one, other, places, digits)
    # 50% equals 50.
    if all(grader.is_atomic_or_pct_atomic(number, Integer) for number in (one, other)):
        return grader.get_pct_val(one, one) == grader.get_pct_val(other, other)
    return same_number(one, other) or False


def _symbolic_eq(one: Basic | MatrixBase, other: Basic | MatrixBase) -> bool:
    """math-verify's comparison of what is not equal as numbers are."""
    if not (isinstance(one, Expr) and isinstance(other, Expr)):
        return _symbolic_eq_of_math_verify(one, other)
    one, other = _with_imaginary_unit(one), _with_imaginary_unit(other)
    if (same := same_number(one, other)) is not None:
        return same
    one, other = _exact(one), _exact(other)
    if _symbolic_eq_of_math_verify(one, other):
        return True
    apart = _apart(one), _apart(other)
    return apart != (one, other) and _symbolic_eq_of_math_verify(*apart)


_numeric_eq_of_math_verify, grader.sympy_numeric_eq = grader.sympy_numeric_eq, _numeric_eq
_symbolic_eq_of_math_verify, grader.sympy_symbolic_eq = grader.sympy_symbolic_eq, _symbolic_eq
