"""Keeps an answer from becoming code or running without end in the worker that compares it.

sympy turns text into Python code, and a model's answer reaches it:
- The digits of a number go through sympy.Number(str), which calls sympify, parse_expr and eval (library.py,
  math-verify).
- The numerical value of an infinite sum goes through lambdify, which writes the summand as Python and runs it, with
  symbols and functions named as in the answer. When bare math-verify compares a sum over
  \\text{[1for[license.marker]in[[1]]][0]}^n, it sets an attribute of Python's `license`.
There may be more such ways. The guard is therefore an audit hook, which sees every compile, eval and exec of the
interpreter. While an answer is compared, the hook refuses them, except where no name of the answer can occur. sympy
treats the refusal as an expression that it cannot evaluate.

Not covered: faults of the interpreter and of C modules. For these the process is bounded (worker.py).
"""

import re
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

from sympy import Symbol
from sympy.core.function import AppliedUndef
from sympy.parsing.sympy_parser import parse_expr
from sympy.polys.monomials import MonomialOps
from sympy.utilities.lambdify import lambdify

_IMPORTS = "<frozen importlib._bootstrap>"
_NAMELESS = re.compile(r"[\d\s.+\-*/()]*")
_REPEAT_SECONDS = 0.05

Result = TypeVar("Result")


class CodeRefused(NotImplementedError):
    """Text of an answer would have run as code."""


class OutOfTime(BaseException):
    """The processor time of an answer is used up. Not an Exception, because libraries catch those and go on."""


# The thread in which text must not become code; None outside `confined`.
_guarded: int | None = None


def confined(seconds: float, function: Callable[..., Result], *args: object) -> Result:
    """Call function(*args) in the main thread; text becomes code only as this module's docstring says.

    Raises OutOfTime after `seconds` of processor time, and again until the call ends, because a bare `except:` or a
    destructor may swallow it. C code that ignores signals runs to its end, or until the server kills the worker.
    """
    global _guarded
    signal.signal(signal.SIGPROF, _out_of_time)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.001), _REPEAT_SECONDS)
    _guarded = threading.get_ident()
    try:
        return function(*args)
    finally:
        _guarded = None
        signal.setitimer(signal.ITIMER_PROF, 0)


def _out_of_time(number: int, frame: FrameType | None) -> None:
    # Not while `confined` itself runs, whose clean-up must not be interrupted.
    caller = frame.f_back if frame else None
    while caller is not None:
        if caller.f_code is _CONFINED:
            raise OutOfTime
        caller = caller.f_back


def _hook(event: str, args: tuple) -> None:
    if _guarded is None or event not in ("compile", "exec") or _guarded != threading.get_ident():
        return
    if not _harmless(sys._getframe(1)):
        raise CodeRefused("an answer's text is not run as code")


def _harmless(frame: FrameType | None) -> bool:
    """Whether the callers up to `confined` show that the new code contains nothing that an answer can name."""
    verdict = False
    decided = False
    while frame is not None and frame.f_code is not _CONFINED:
        code = frame.f_code
        if code.co_filename == _IMPORTS:
            return True
        if not decided and code in _MAKERS:
            verdict, decided = _MAKERS[code](frame.f_locals), True
        frame = frame.f_back
    return verdict


def _only_arguments(names: dict[str, Any]) -> bool:
    """lambdify: whether the only name is the argument, which lambdify renames if it is not an identifier."""
    argument, expr = names["args"], names["expr"]
    return isinstance(argument, Symbol) and expr.free_symbols <= {argument} and not expr.atoms(AppliedUndef)


# Functions of sympy that turn text into code, and whether they may, given their local variables. The innermost decides.
_MAKERS: dict[CodeType, Callable[[dict[str, Any]], bool]] = {
    parse_expr.__code__: lambda names: _NAMELESS.fullmatch(str(names["s"])) is not None,
    lambdify.__code__: _only_arguments,
    # Generates functions of exponents for a number of variables.
    MonomialOps._build.__code__: lambda names: True,
}
_CONFINED = confined.__code__
sys.addaudithook(_hook)
