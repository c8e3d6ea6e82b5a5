"""What is known of one file: it is filled row by row, and a million rows fit into memory."""

import random
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl.data.wording import named, number_of
from rl.metrics.pass_at_k import k_values, pass_at_k

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Id = int | str


@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    examples: int
    seed: int
    tokenizer: "PreTrainedTokenizerBase | None"
    tokenizer_hash: str | None


@dataclass
class Keys:
    """Ids and prompt texts of rows. A text is kept as 64 bits of its hash: two of a million are the same by chance once
    in 40 million files."""

    ids: list[Id] = field(default_factory=list)
    texts: array = field(default_factory=lambda: array("Q"))
    text_ids: list[Id] = field(default_factory=list)  # whose the texts are

    def add_text(self, id: Id, text: int) -> None:
        self.texts.append(text)
        self.text_ids.append(id)

    def problems(self, row: str = "row") -> list[str]:
        """Sentences on duplicate ids and on rows with the same prompt text."""
        found = []
        if repeated := {id: count for id, count in Counter(self.ids).items() if count > 1}:
            surplus = sum(repeated.values()) - len(repeated)
            found.append(f"{number_of(surplus, row)} with the id of an earlier one ({named(repeated)}).")
        texts = np.frombuffer(self.texts, dtype=np.uint64)
        order = np.argsort(texts, kind="stable")
        again = np.flatnonzero(texts[order][1:] == texts[order][:-1])
        if again.size:
            first, second = (self.text_ids[order[again[0] + i]] for i in (0, 1))
            found.append(
                f"{number_of(again.size, row)} with the prompt text of another {row} (for example ids {first} and "
                f"{second})."
            )
        return found


class Reservoir:
    """A uniform random choice of `size` of the rows that go by."""

    def __init__(self, size: int, seed: int):
        self._size, self._random, self._seen = size, random.Random(seed), 0
        self._rows: list[tuple[int, Any]] = []

    def add(self, row: Any) -> None:
        self._seen += 1
        if len(self._rows) < self._size:
            self._rows.append((self._seen, row))
        elif (place := self._random.randrange(self._seen)) < self._size:
            self._rows[place] = self._seen, row

    @property
    def rows(self) -> list[Any]:
        """In the order of the file."""
        return [row for _, row in sorted(self._rows, key=lambda numbered: numbered[0])]


class FileReport:
    """One file.

    Attributes:
        rows: of samples: samples.
        facts: columns, metadata.
        counts: rows by data_source, by outcome.
        lengths: rows by their length, by what is measured.
        shares: 0..1.
        passes: see pass_summary.
        chosen: rows to show.
        examples: what is shown of them.
    """

    def __init__(self, path: Path, kind: str, options: Options):
        self.path, self.kind, self.rows = path, kind, 0
        self.facts: dict[str, Any] = {}
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.lengths: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.shares: dict[str, float] = {}
        self.passes: dict[str, Any] | None = None
        self.chosen = Reservoir(options.examples, options.seed)
        self.examples: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.keys = Keys()

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
    """min, median, p99 and max of the counted lengths: the smallest length that at least that share does not exceed."""
    values = sorted(lengths)
    up_to = np.cumsum([lengths[value] for value in values])
    at = np.searchsorted(up_to, np.ceil(np.array([0.5, 0.99]) * up_to[-1]))
    return {"min": values[0], "median": values[at[0]], "p99": values[at[1]], "max": values[-1]}


def pass_summary(correct: Iterable[int], n: int | None) -> dict[str, Any] | None:
    """Histogram of the numbers of correct samples and, where n is known, unbiased Pass@k.

    Args:
        correct: of each prompt.
        n: samples per prompt; None: only the correct ones were counted.

    Returns:
        {"n", "prompts": [prompts with 0, 1, ... correct samples], "pass@k": {k: mean}}, or None without a prompt.
    """
    counts = np.fromiter(correct, dtype=int)
    if not counts.size:
        return None
    prompts = np.bincount(counts, minlength=0 if n is None else n + 1).tolist()
    values = {} if n is None else {str(k): float(pass_at_k(counts, n, k).mean()) for k in k_values(n)}
    return {"n": n, "prompts": prompts, "pass@k": values}


def text_hash(text: str | bytes) -> int:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
