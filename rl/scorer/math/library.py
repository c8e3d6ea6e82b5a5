r"""Prepares math-verify 0.9 for the ANTLR runtime 4.9.3 (hydra's): import it before parsing anything.

Six changes to latex2sympy2_extended 1.11. Only the last three change the parse of an expression in its build for ANTLR
4.13; tests/scorer/math/test_compare.py has the parses of both.
- Its parser for 4.9.3 was generated earlier than the one for 4.13 and lacks a method that its converter calls, so that
  every percentage fails.
- It parses with ANTLR's full LL prediction, which repeats much work each time. SLL prediction is cached, and "will
  either return a correct parse tree (i.e. the same parse tree that would be returned with the LL prediction mode), or
  it will report a syntax error" (ANTLR, PredictionMode.SLL), after which LL decides. This is twice as fast.
- It reads a number by eval (guard.py); here int and Float read it.
- It removes the text from the first unit to the last one, with the numbers between them: 3\text{ cm}, 4\text{ cm} was
  3. Here it removes the last one, and those of the numbers in a list.
- It removes t, h, ab and other short names at the end of a text as units: 2t was 2. Here it removes those of
  _SHORT_UNITS and longer ones; compare.py decides about 5 m.
- It reads 10!! as (10!)!. Here this is the double factorial.
"""

import logging
import re

import sympy
from antlr4 import PredictionMode
from latex2sympy2_extended import math_normalization
from latex2sympy2_extended.antlr_parser import PSParser
from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy

# It warns that it has no time limit; the worker has one.
logging.getLogger("math_verify").setLevel(logging.ERROR)

_full_parser = _Latex2Sympy.create_parser


class _TwoStageParser:
    """Parses by SLL prediction and, where that fails, by LL."""

    def __init__(self, converter: _Latex2Sympy, latex: str):
        self._converter = converter
        self._latex = latex

    def math(self) -> PSParser.MathContext:
        parser = _full_parser(self._converter, self._latex)
        parser._interp.predictionMode = PredictionMode.SLL
        try:
            return parser.math()
        except Exception:
            return _full_parser(self._converter, self._latex).math()


def _parse_number(converter: _Latex2Sympy, text: str) -> sympy.Number:
    """The number of a NUMBER or E_NOTATION token, as sympy.Number(text) has it."""
    text = text.replace(",", "").strip()
    return sympy.Integer(int(text)) if text.isdigit() else sympy.Float(text)


def _convert_postfix(converter: _Latex2Sympy, postfix: PSParser.PostfixContext) -> sympy.Basic:
    """The operand with its signs. Two exclamation marks in a row are one sign."""
    signs = postfix.postfix_op()
    if len(signs) == 2 and all(sign.BANG() for sign in signs):
        operand = postfix.exp() if hasattr(postfix, "exp") else postfix.exp_nofunc()
        return sympy.factorial2(converter.convert_exp(operand), evaluate=False)
    return _convert_other_postfix(converter, postfix)


def _gamma(atom: PSParser.AtomContext) -> object:
    return atom.getToken(PSParser.FUNC_GAMMA, 0)


if not hasattr(PSParser.AtomContext, "FUNC_GAMMA"):
    PSParser.AtomContext.FUNC_GAMMA = _gamma
_Latex2Sympy.create_parser = lambda converter, latex: _TwoStageParser(converter, latex)
_Latex2Sympy.parse_number = _parse_number
_convert_other_postfix, _Latex2Sympy.convert_postfix = _Latex2Sympy.convert_postfix, _convert_postfix
# The content may have braces: \text{ cm$^{2}$}.
_TEXT = r"\\(?:text|mbox)\{(?:[^{}]|\{[^{}]*\})*\}(?:\^\d|\^\{-?\d\}|\{\^\d\})?"
# Not after the comma of a list, such as \text{A}, \text{C}; the comma of the space \, is another one.
_UNIT = rf"(?:(?<=[^,;\s(\[{{])|(?<=\\[,;]))\s*{_TEXT}(?:\s*(?:(?:/|\\cdot|\\[,;:! ])\s*)?{_TEXT})*"
math_normalization.unit_superscript_regex = re.compile(rf"{_UNIT}(?=$|\s*[,;)\]])")
# All its other names of one or two letters are variables too.
_SHORT_UNITS = {"cm", "dm", "ft", "hr", "kg", "km", "lb", "mm", "sq", "yr"}
_UNITS = "|".join(unit for unit in math_normalization.units if len(unit) > 2 or unit in _SHORT_UNITS)
math_normalization.units_regex = re.compile(rf"(\d|\}}|\s)\s*(?:{_UNITS})(?:s|es)?\s*$")
