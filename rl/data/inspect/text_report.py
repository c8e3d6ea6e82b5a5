"""A report as text for a terminal."""

import json
from typing import Any

from rl.data.wording import histogram

# Of a long text the first and the last characters are shown.
_HEAD, _TAIL = 400, 200


def page(report: dict[str, Any]) -> str:
    """A file's FileReport.as_json as text."""
    lines = [report["path"], f"  {report['kind']}, {report['rows']:,} rows"]
    lines += [f"  {name}: {_fact(value)}" for name, value in report["facts"].items()]
    for name, counts in report["counts"].items():
        lines.append(f"  {name}: " + ", ".join(f"{value} {count:,}" for value, count in counts.items()))
    lines += [f"  {name}: {share:.1%}" for name, share in report["shares"].items()]
    lines += _lengths(report["lengths"])
    lines += _passes(report["passes"])
    for number, example in enumerate(report["examples"], start=1):
        lines.append(f"  example {number}")
        lines += [_indented(name, value) for name, value in example.items()]
    return "\n".join(lines) + "\n"


def problems_section(problems: list[str]) -> str:
    return "\n".join(["Problems", *(f"  - {problem}" for problem in problems or ["none"])]) + "\n"


def shortened(text: str) -> str:
    """A text of bounded length without control characters: what a model writes must not steer the terminal."""
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]} [... {len(text) - _HEAD - _TAIL:,} characters ...] {text[-_TAIL:]}"
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def _lengths(lengths: dict[str, dict[str, int]]) -> list[str]:
    if not lengths:
        return []
    width = max(map(len, lengths))
    lines = [f"  {'':<{width}} " + " ".join(f"{name:>9}" for name in next(iter(lengths.values())))]
    for what, values in lengths.items():
        lines.append(f"  {what:<{width}} " + " ".join(f"{value:>9,}" for value in values.values()))
    return lines


def _passes(passes: dict[str, Any] | None) -> list[str]:
    if passes is None:
        return []
    of = f" of {passes['n']}" if passes["n"] else ""
    lines = [f"  {line}" for line in histogram(f"correct{of}", passes["prompts"])]
    values = "  ".join(f"Pass@{k} {value:.4f}" for k, value in passes["pass@k"].items())
    return lines + ([f"  {values}"] if values else [])


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_fact(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else shortened(str(value))


def _indented(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = shortened(text)
    return f"    {name}: " + text.replace("\n", "\n      ")
