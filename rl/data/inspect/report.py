"""The report on a file, the prompts that several files share, and the text for a terminal.

A report is filled row by row. A million rows fit into memory.
"""

import heapq
import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl.data.sample_summary import pass_lines
from rl.data.wording import named, number_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Id = int | str
PROMPTS, SAMPLES, STORE = "prompts", "samples", "D_pef store"
# A long text is shown with this many characters of its start and of its end.
_HEAD, _TAIL = 400, 200


@dataclass(frozen=True)
class Options:
    """The command line's options."""

    examples: int
    seed: int
    tokenizer: "PreTrainedTokenizerBase | None" = None
    tokenizer_hash: str | None = None


class FileReport:
    """The report on one file.

    Attributes:
        rows: number of rows or samples.
        facts: columns and metadata.
        counts: the number of rows by data_source and by outcome.
        lengths: for each measure of length, the number of rows by length.
        shares: shares of the rows, 0..1.
        passes: see rl.data.sample_summary.pass_summary; None without a prompt.
        examples: the chosen rows, as they are shown.
        ids: the number of rows by id; for samples and stores, of prompts.
        texts: the id of the first row with each prompt text. A text is kept as 64 bits of its hash. Among a million
            texts, two have the same bits by chance in one of 40 million files.
        same_texts: (an earlier row's id, id) for each row that repeats a text.
    """

    def __init__(self, path: Path, kind: str, options: Options):
        self.path, self.kind, self.rows = path, kind, 0
        self.facts: dict[str, Any] = {}
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.lengths: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.shares: dict[str, float] = {}
        self.passes: dict[str, Any] | None = None
        self.examples: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.ids: Counter[Id] = Counter()
        self.texts: dict[int, Id] = {}
        self.same_texts: list[tuple[Id, Id]] = []
        self._size, self._random = options.examples, random.Random(options.seed)
        self._chosen: list[tuple[float, int, Any]] = []  # a heap of the rows with the largest random numbers

    def add_row(self, row: Any) -> None:
        """Count a row, and keep it if the uniform random choice selects it."""
        self.rows += 1
        heapq.heappush(self._chosen, (self._random.random(), self.rows, row))
        if len(self._chosen) > self._size:
            heapq.heappop(self._chosen)

    @property
    def chosen(self) -> list[Any]:
        """The rows to show, in the order of the file."""
        return [row for _, _, row in sorted(self._chosen, key=lambda drawn: drawn[1])]

    def add_text(self, id: Id, text: int) -> None:
        """
        Args:
            text: the text_hash of a prompt.
        """
        if text in self.texts:
            self.same_texts.append((self.texts[text], id))
        else:
            self.texts[text] = id

    def duplicates(self, row: str = "row") -> list[str]:
        """Sentences about duplicate ids and about rows with the same prompt text."""
        found = []
        if repeated := [id for id, count in self.ids.items() if count > 1]:
            surplus = self.ids.total() - len(self.ids)
            found.append(f"{number_of(surplus, row)} with the id of an earlier {row} ({named(repeated)}).")
        if self.same_texts:
            first, second = self.same_texts[0]
            found.append(
                f"{number_of(len(self.same_texts), row)} with the prompt text of another {row} (for example ids "
                f"{first} and {second})."
            )
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "kind": self.kind,
            "rows": self.rows,
            "facts": self.facts,
            "counts": {name: dict(counter.most_common()) for name, counter in self.counts.items()},
            "lengths": {what: length_summary(lengths) for what, lengths in self.lengths.items()},
            "shares": self.shares,
            "passes": self.passes,
            "examples": self.examples,
            "problems": self.problems,
        }


def length_summary(lengths: Counter[int]) -> dict[str, int]:
    """The lengths' min, median, p99 and max; a quantile is the smallest length that reaches its share of the rows."""
    found = np.quantile(list(lengths.elements()), [0, 0.5, 0.99, 1], method="inverted_cdf")
    return dict(zip(("min", "median", "p99", "max"), found.tolist(), strict=True))


def text_hash(text: str | bytes) -> int:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def leaks(reports: Sequence[FileReport]) -> list[dict[str, Any]]:
    """Find each pair of prompt files that share ids or prompt texts.

    Samples and stores always share prompts with the file that they were made from.

    Returns:
        {"files": [a, b], "ids": number, "texts": number, "problem": a sentence} for each pair that shares any.
    """
    found = []
    for a, b in combinations([report for report in reports if report.kind.startswith(PROMPTS)], 2):
        ids = sorted(a.ids.keys() & b.ids.keys(), key=str)
        texts = [id for text, id in a.texts.items() if text in b.texts]
        shared = [f"{number_of(len(ids), 'id')} ({named(ids)})"] if ids else []
        if texts:
            shared.append(f"{number_of(len(texts), 'prompt text')} (for example of id {texts[0]} in {a.path.name})")
        if shared:
            sentence = f"{a.path} and {b.path} share {' and '.join(shared)}."
            found.append({"files": [a.path, b.path], "ids": len(ids), "texts": len(texts), "problem": sentence})
    return found


def page(report: dict[str, Any]) -> str:
    """The text of a file's FileReport.as_json."""
    lines = [report["path"], f"  {report['kind']}, {report['rows']:,} rows"]
    lines += [f"  {name}: {_fact(value)}" for name, value in report["facts"].items()]
    for name, counts in report["counts"].items():
        lines.append(f"  {name}: " + ", ".join(f"{printable(value)} {count:,}" for value, count in counts.items()))
    lines += [f"  {name}: {share:.1%}" for name, share in report["shares"].items()]
    lines += _lengths(report["lengths"])
    if report["passes"] is not None:
        lines += [f"  {line}" for line in pass_lines(report["passes"])]
    for number, example in enumerate(report["examples"], start=1):
        lines.append(f"  example {number}")
        lines += [_indented(name, value) for name, value in example.items()]
    return "\n".join(lines) + "\n"


def problems_section(problems: list[str]) -> str:
    return "\n".join(["Problems", *(f"  - {printable(problem)}" for problem in problems or ["none"])]) + "\n"


def shortened(text: str) -> str:
    """A printable text of bounded length."""
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]} [... {len(text) - _HEAD - _TAIL:,} characters ...] {text[-_TAIL:]}"
    return printable(text)


def printable(text: str) -> str:
    """A text without control characters, because a model's text must not steer the terminal, and without half of a
    surrogate pair, which cannot be written."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def _lengths(lengths: dict[str, dict[str, int]]) -> list[str]:
    if not lengths:
        return []
    width = max(map(len, lengths))
    lines = [f"  {'':<{width}} " + " ".join(f"{name:>9}" for name in next(iter(lengths.values())))]
    for what, values in lengths.items():
        lines.append(f"  {what:<{width}} " + " ".join(f"{value:>9,}" for value in values.values()))
    return lines


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{printable(name)} {_fact(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(printable(str(part)) for part in value)
    return f"{value:.6g}" if isinstance(value, float) else shortened(str(value))


def _indented(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = shortened(text)
    return f"    {name}: " + text.replace("\n", "\n      ")
