"""What an answer must not do to the worker that compares it: become code, or run on and on.

sympy makes Python code of text, and a model's answer reaches it:
- a number's digits go through sympy.Number(str), which is sympify, parse_expr and eval (library.py, math-verify);
- the numerical value of an infinite sum goes through lambdify, which writes the summand down as Python and runs it,
  with symbols and functions named as in the answer. A sum over \\text{[1for[license.marker]in[[1]]][0]}^n sets an
  attribute of Python's `license` when bare math-verify compares it.
Nobody promises that these are all. The guard is therefore where all of them must pass: an audit hook sees every
compile, eval and exec of the interpreter. While an answer is compared it refuses them, except what cannot hold a name
of the answer. sympy takes the refusal for an expression that it cannot evaluate.

Not covered: faults of the interpreter and of C modules. The process is bounded besides (worker.py).
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
    """Text of an answer would have been run as code."""


class OutOfTime(BaseException):
    """The processor time of an answer is used up. No Exception: libraries that catch those must not go on."""


# The thread in which text must not become code, while one does.
_guarded: int | None = None


def confined(seconds: float, function: Callable[..., Result], *args: object) -> Result:
    """function(*args), in the main thread, within which text becomes code only as this module's docstring says.

    Raises OutOfTime once the process has used `seconds` of processor time in it, again and again until it is left: a
    bare `except:` or a destructor may swallow one. A call of C code that does not look for signals goes on to its end;
    for that the server kills the worker.
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
    # Not once `confined` itself runs again: what it does at its end must not be interrupted.
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
    """Whether code is made of nothing that an answer can name, by the callers between it and `confined`."""
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
    """lambdify: whether the expression has no names but its argument, which it renames where it is no identifier."""
    argument, expr = names["args"], names["expr"]
    return isinstance(argument, Symbol) and expr.free_symbols <= {argument} and not expr.atoms(AppliedUndef)


# What makes code of text in sympy, and whether it may, by its local variables; the innermost decides.
_MAKERS: dict[CodeType, Callable[[dict[str, Any]], bool]] = {
    parse_expr.__code__: lambda names: _NAMELESS.fullmatch(str(names["s"])) is not None,
    lambdify.__code__: _only_arguments,
    # Functions on exponents, written for a number of variables.
    MonomialOps._build.__code__: lambda names: True,
}
_CONFINED = confined.__code__
sys.addaudithook(_hook)
