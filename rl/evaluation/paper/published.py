"""The paper's Tables 1-4 and 8: columns, rows and figures from paper.json."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

# The paper's experiments. Table 3 tests the model of Table 1 on math.
SETTINGS = ("llama-sql", "omnisql-32b", "llama-math", "qwen-math")


@dataclass(frozen=True)
class PaperRow:
    """A method's row. method: name in evaluate.models of the method to show beside it."""

    method: str
    label: str
    group: str | None
    values: tuple[float | None, ...]  # per cent, one per column; None if the paper has none
    average: float | None = None


@dataclass(frozen=True)
class PaperTable:
    """One model's block of a table."""

    number: str
    setting: str
    model: str
    task: str  # sql or math
    columns: tuple[tuple[str, str], ...]  # benchmark and metric (greedy, pass@8, mean@64, ...)
    rows: tuple[PaperRow, ...]


@cache
def paper_tables() -> tuple[PaperTable, ...]:
    """All tables, in the paper's order."""
    content = json.loads((Path(__file__).parent / "paper.json").read_text(encoding="utf-8"))
    return TypeAdapter(tuple[PaperTable, ...]).validate_python(content["tables"])
