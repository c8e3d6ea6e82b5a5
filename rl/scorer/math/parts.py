r"""Takes bare answers apart: the items of a list, both signs of \pm, labels, conditions, the terms of a ratio."""

import re
from itertools import product

from rl.scorer.math.notation import IN_TEXT, WIDE_SPACE

_BRACKETS = re.compile(r"\\[{}]|\\text\{ (?:and|or) \}|\\.|[()\[\]{},;]", re.DOTALL)
_OPENING, _CLOSING = ("(", "[", "{", r"\{"), (")", "]", "}", r"\}")
_SET = re.compile(r"((?:\\left)?\\\{)(.*?)((?:\\right)?\\\})", re.DOTALL)
_SIGNS = re.compile(r"\\(pm|mp)(?![A-Za-z])")
# Two signs are chosen for themselves: \pm 1 \pm \sqrt{2} has four values. More would be too many.
_MOST_SIGNS = 3
# k \in \mathbb{Z} after a comma, words or in parentheses.
_QUANTIFIED = re.compile(
    rf"(?P<value>.*[^\s,(\\])(?:{WIDE_SPACE}|,|\(|{IN_TEXT}\{{[^{{}}]*\}})+"
    r"(?P<name>[A-Za-z])\s*\\in\s*(?P<domain>\\mathbb\{[A-Z]\}[^\s()]*)\s*\)?",
    re.DOTALL,
)
_CONDITION = re.compile(
    rf"(.*[^\s\\]){WIDE_SPACE}*" + r"\(([^()]*(?:[<>≤≥]|\\(?:[lg]eq?|neq?)(?![A-Za-z]))[^()]*)\)", re.DOTALL
)
_DERIVATION = re.compile(r"\\(?:(?:Long)?(?:[Ll]eft)?[Rr]ightarrow|implies|iff|to)(?![A-Za-z])")
# An inequality is in parentheses, as in P(X>2).
_LABELLED = re.compile(r"(?P<label>(?:[^=<>≤≥]|[<>≤≥](?=[^()=]*\)))*[A-Za-z}')|])\s*=\s*(?P<value>[^=]+)")
# A label has numbers only in its index or as an argument, as in a_{10} or f(2), and no sign of a calculation but a
# derivative's.
_D = r"\{(?:d|\\partial)(?![a-z]{2})[^{}]*\}"
# An index, also x^{*}, x^{(1)} and f^{-1}(x), and a derivative.
_INDEX = rf"_\{{[^{{}}]*\}}|\^\{{(?:\*|\([^()]*\))\}}|\^\{{-1\}}(?=\()|\\[dt]?frac{_D}{_D}"
_IN_LABEL = re.compile(rf"{_INDEX}|\([^()]*\)$")
_CALCULATION = re.compile(
    r"[\d+*/^&,;-]|\\(?:[dt]?frac|sqrt|cdot|times|approx|in|pm|mp|not|begin|sin|cos|tan|ln|log|sum|int|quad|leq?|geq?)(?![A-Za-z])"
)
_OF_X = re.compile(r"[A-Za-z](?:\^\{-1\})?\(x\)")
_TERM = re.compile(r"[^:,;=<>|]*[\dA-Za-z})]")
# The left side of an equation: up to the first = outside braces.
_LEFT_SIDE = re.compile(r"((?:[^={}]|\{(?:[^{}]|\{[^{}]*\})*\})*)=")
# What names a quantity however it is written: a function's value, a trigonometric function, a sum, |z|^2.
_QUANTITY = re.compile(
    r"(?<![\\A-Za-z])(?P<function>[A-Za-z]+|\\(?:phi|varphi|sigma|tau|mu))"
    r"(?:'|_\{[^{}]*\}|\^\{(?:-1|\([^()]*\))\})*\((?![^()]*(?P=function))"
    r"|\\(?:sin|cos|tan|cot|sec|csc|sum|prod|int|lim|max|min|gcd|det|text|mathrm|operatorname)(?![A-Za-z])"
    r"|^\s*\|.*\|(?:\^\{\d+\})?\s*$"
)
# Coordinates, without those that have an index. A sum or a power of them is a curve's equation, not a name.
_COORDINATE = re.compile(r"(?<![\\A-Za-z])[xyz](?![A-Za-z_])")
_NOT_OF_A_CURVE = re.compile(r"[,:']|\\(?:[dt]?frac\{d|partial)|^\s*\|.*\|\s*$")
_GREEK = r"\\(?:alpha|beta|gamma|theta|phi|varphi|lambda|omega)(?![A-Za-z])"
_UNKNOWN = re.compile(rf"(?:{_GREEK}|(?<![\\A-Za-z])[a-df-hj-zA-Z](?![A-Za-z]))(?:_\{{[^{{}}]*\}})?")


def items(answer: str) -> list[str]:
    """The items of a list: what commas, semicolons, "and" and "or" outside brackets separate."""
    found, start, depth = [], 0, 0
    for bracket in _BRACKETS.finditer(answer):
        if bracket[0] in _OPENING:
            depth += 1
        elif bracket[0] in _CLOSING:
            depth -= 1
        elif depth == 0 and (bracket[0] in ",;" or bracket[0].startswith(r"\text")):
            found.append(answer[start : bracket.start()].strip())
            start = bracket.end()
    return [item for item in (*found, answer[start:].strip()) if item]


def with_both_signs(answer: str) -> str:
    r"""1+\sqrt{2}, 1-\sqrt{2} for 1 \pm \sqrt{2}, also in an item of a list or a set. \mp is the other sign."""
    if not _SIGNS.search(answer):
        return answer
    if (found := _SET.fullmatch(answer)) and _SET.search(found[2]) is None:
        return found[1] + with_both_signs(found[2]) + found[3]
    return ", ".join(variant for item in items(answer) for variant in _variants(item))


def _variants(item: str) -> list[str]:
    before, *rest = _SIGNS.split(item)
    signs, texts = rest[::2], rest[1::2]
    tied = "mp" in signs
    if not tied and len(signs) > _MOST_SIGNS:
        return [item]
    variants = []
    for chosen in product("+-", repeat=1 if tied else len(signs)):
        written = before
        for sign, plus, text in zip(signs, chosen * len(signs) if tied else chosen, texts, strict=True):
            written += (plus if sign == "pm" else {"+": "-", "-": "+"}[plus]) + text
        variants.append(written.removeprefix("+"))
    return variants


def without_condition(gold: str, pred: str) -> tuple[str, str] | None:
    r"""The answers without conditions such as (x>0) or k \in \mathbb{Z} at the end; None if two conditions differ.

    Only one of the answers needs a condition. A name of its own is its choice: 2n\pi, n \in \mathbb{Z}.
    """
    both = _QUANTIFIED.fullmatch(gold), _QUANTIFIED.fullmatch(pred)
    if both[0] and both[1]:
        if both[0]["domain"] != both[1]["domain"]:
            return None
        value = re.sub(rf"(?<![\\A-Za-z]){both[1]['name']}(?![A-Za-z])", both[0]["name"], both[1]["value"])
        return both[0]["value"], value
    if both[0] or both[1]:
        return (both[0]["value"] if both[0] else gold), (both[1]["value"] if both[1] else pred)
    of_gold, of_pred = _CONDITION.fullmatch(gold), _CONDITION.fullmatch(pred)
    if of_gold and of_pred and "".join(of_gold[2].split()) != "".join(of_pred[2].split()):
        return None
    return (of_gold[1] if of_gold else gold), (of_pred[1] if of_pred else pred)


def without_derivation(gold: str, pred: str) -> str:
    r"""What stands after the last \Rightarrow of a response's answer, unless gold has such a sign."""
    last = [found.end() for found in _DERIVATION.finditer(pred)]
    if not last or _DERIVATION.search(gold) or pred[last[-1] :].count("{") != pred[last[-1] :].count("}"):
        return pred
    return pred[last[-1] :].strip() or pred


def without_label(gold: str, pred: str) -> tuple[str, str]:
    r"""Without m_{max}= or E=, if only one answer has such a label, or both have the same; f(x)= is y=."""
    of_gold, of_pred = _labelled(gold), _labelled(pred)
    if of_gold and of_pred:
        labels = ["".join(found["label"].split()) for found in (of_gold, of_pred)]
        if labels[0] == labels[1] or "y" in labels and any(_OF_X.fullmatch(label) for label in labels):
            return of_gold["value"], of_pred["value"]
    if of_gold and "=" not in pred:
        return of_gold["value"], pred
    if of_pred and "=" not in gold:
        return gold, of_pred["value"]
    return gold, pred


def _labelled(answer: str) -> re.Match[str] | None:
    found = _LABELLED.fullmatch(answer)
    return found if found and not _CALCULATION.search(_IN_LABEL.sub("", found["label"])) else None


def is_unsolved(answer: str) -> bool:
    r"""Whether the answer is an equation of one unknown that still has to be solved: 2x=10, x^2=4, but not x=5.

    With two unknowns the left side may be the quantity that is asked for, as in m+n=7. If the right side has the
    unknown too, it is what the left side becomes, as in (x+1)^2 = x^2+2x+1.
    """
    found = _LEFT_SIDE.match(answer)
    if not found or _QUANTITY.search(found[1]):
        return False
    unknowns = set(_UNKNOWN.findall(found[1]))
    if len(unknowns) != 1 or unknowns <= set(_UNKNOWN.findall(answer, found.end())):
        return False
    return _CALCULATION.search(re.sub(_INDEX, "", found[1])) is not None


def is_curve(answer: str) -> bool:
    r"""Whether the answer is an equation of two coordinates or more, such as x+y=1 or y^2=4x, that is not y=2x."""
    found = _LEFT_SIDE.match(answer)
    if not found or any(pattern.search(found[1]) for pattern in (_NOT_OF_A_CURVE, _QUANTITY)):
        return False
    on_the_left = _COORDINATE.search(found[1]) and re.search(r"[-+^]", found[1])
    return on_the_left is not None and len({*_COORDINATE.findall(answer)}) > 1


def as_ratios(gold: str, pred: str) -> tuple[str, str] | None:
    """Ratios of three terms or more as the shares of their terms; None if only one is such a ratio."""
    terms = _terms(gold), _terms(pred)
    if max(map(len, terms)) < 3:
        return gold, pred
    if len(terms[0]) != len(terms[1]):
        return None
    return _shares(terms[0]), _shares(terms[1])


def _terms(answer: str) -> list[str]:
    terms = answer.split(":")
    return terms if all(_TERM.fullmatch(term.strip()) for term in terms) else []


def _shares(terms: list[str]) -> str:
    whole = "+".join(f"({term})" for term in terms)
    return "(" + ", ".join(rf"\frac{{{term}}}{{{whole}}}" for term in terms) + ")"
