"""Streaming statistics of a file: lengths, ids, prompt hashes and a random sample of rows. A million rows fit."""

import random
from array import array
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from rl.data.wording import named, number_of

Id = int | str


def length_summary(lengths: Counter[int]) -> dict[str, int]:
    """min, median, p99 and max of the counted lengths: the smallest length that at least that share does not exceed."""
    if not lengths:
        return {}
    values = sorted(lengths)
    up_to = np.cumsum([lengths[value] for value in values])
    at = np.searchsorted(up_to, np.ceil(np.array([0.5, 0.99]) * up_to[-1]))
    return {"min": values[0], "median": values[at[0]], "p99": values[at[1]], "max": values[-1]}


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
        return [sentence for sentence in (self._repeated_ids(row), self._repeated_texts(row)) if sentence]

    def _repeated_ids(self, row: str) -> str | None:
        repeated = {id: count for id, count in Counter(self.ids).items() if count > 1}
        if not repeated:
            return None
        surplus = sum(repeated.values()) - len(repeated)
        return f"{number_of(surplus, row)} with the id of an earlier one ({named(repeated)})."

    def _repeated_texts(self, row: str) -> str | None:
        texts = np.frombuffer(self.texts, dtype=np.uint64)
        order = np.argsort(texts, kind="stable")
        again = np.flatnonzero(texts[order][1:] == texts[order][:-1])
        if not again.size:
            return None
        first, second = (self.text_ids[order[again[0] + i]] for i in (0, 1))
        example = f"for example ids {first} and {second}"
        return f"{number_of(again.size, row)} with the prompt text of another {row} ({example})."


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


def text_hash(text: str | bytes) -> int:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
