"""Whether two results are equal under some permutation of their columns, without trying all permutations.

With ordered rows a column is a list of values, so comparing the bags of columns is enough. With unordered rows the
problem is as hard as graph isomorphism (columns are vertices, rows are edges), for which no polynomial algorithm is
known. Colour refinement decides the results that queries return: columns of different colours distinguish rows, and
rows of different colours distinguish columns, in turns. If columns stay alike, one of gold's is paired with each
predicted column of its colour, and the refinement goes on. The work on such pairings is limited.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from rl.scorer.sql.execute import Row, StatementError, Value

# How many cells of gold's result all turns together may read: about half a second.
_MOST_CELLS = 500_000

# One colour for each column, or for each row.
_Colours = Sequence[int]


def equal_under_column_permutation(gold: list[Row], predicted: list[Row], ordered: bool) -> bool:
    """Whether some permutation of `predicted`'s columns makes its bag of rows (`ordered`: its list) equal `gold`'s.

    Two results without rows are equal, whatever their columns. Raises StatementError if the columns are so similar that
    too many pairings must be tried.
    """
    if len(gold) != len(predicted):
        return False
    if gold == predicted:
        return True
    if len(gold[0]) != len(predicted[0]):
        return False
    same_columns = Counter(zip(*gold, strict=True)) == Counter(zip(*predicted, strict=True))
    if ordered or same_columns:
        return same_columns
    rows, other_rows = Counter(gold), Counter(predicted)
    return rows == other_rows or _Pairing(rows, other_rows).exists()


class _Side:
    """The distinct rows and columns of a result. counts, copies: how often each row and each column occurs."""

    def __init__(self, rows: Counter[Row]):
        columns = Counter(zip(*rows, strict=True))
        self.columns, self.copies = list(columns), list(columns.values())
        self.counts = list(rows.values())


class _Pairing:
    """Looks for a pairing of the columns of two results that makes their bags of rows equal."""

    def __init__(self, gold: Counter[Row], predicted: Counter[Row]):
        self._sides = _Side(gold), _Side(predicted)
        columns = len(self._sides[0].columns)
        # Turns: even for a large result twice as many as are needed to pair all columns without a wrong choice.
        self._left = 4 * columns + _MOST_CELLS // (columns * len(gold))
        # Values of several types cannot be sorted, but their numbers can.
        self._numbers: dict[Value, int] = {}

    def exists(self) -> bool:
        """Whether there is such a pairing. Raises StatementError as equal_under_column_permutation does."""
        gold, predicted = self._sides
        colours = self._column_colours((gold.copies, predicted.copies), (gold.counts, predicted.counts))
        return colours is not None and self._exists(colours)

    def _exists(self, colours: tuple[_Colours, _Colours]) -> bool:
        """Whether there is one that pairs each column with a column of its colour."""
        while True:
            sizes = Counter(colours[0])
            rows = self._row_colours(colours)
            if rows is None:
                return False
            if len(sizes) == len(colours[0]):
                return True
            refined = self._column_colours(colours, rows)
            if refined is None:
                return False
            colours = refined
            if len(set(colours[0])) == len(sizes):
                break
        sizes = Counter(colours[0])
        colour = min((colour for colour, size in sizes.items() if size > 1), key=sizes.__getitem__)
        paired = _marked(colours[0], colours[0].index(colour))
        partners = (place for place, other in enumerate(colours[1]) if other == colour)
        return any(self._exists((paired, _marked(colours[1], place))) for place in partners)

    def _row_colours(self, colours: tuple[_Colours, _Colours]) -> tuple[_Colours, _Colours] | None:
        """Colours that are equal for rows that occur equally often with the same values in the columns of each colour.

        None if the two sides differ. If every column has its own colour, this compares the bags of rows.
        """
        if not self._left:
            raise StatementError("its columns are so similar that too many pairings with gold's must be tried")
        self._left -= 1
        classes = sorted(set(colours[0]))
        return _coloured(*(self._row_keys(side, of, classes) for side, of in zip(self._sides, colours, strict=True)))

    def _row_keys(self, side: _Side, colours: _Colours, classes: list[int]) -> Iterable[Hashable]:
        parts: list[Iterable] = [side.counts]
        for colour in classes:
            alike = [column for column, own in zip(side.columns, colours, strict=True) if own == colour]
            parts.append(alike[0] if len(alike) == 1 else map(self._bag, zip(*alike, strict=True)))
        return zip(*parts, strict=True)

    def _bag(self, row: Row) -> tuple[int, ...]:
        return tuple(sorted([self._numbers.setdefault(value, len(self._numbers)) for value in row]))

    def _column_colours(
        self, colours: tuple[_Colours, _Colours], rows: tuple[_Colours, _Colours]
    ) -> tuple[_Colours, _Colours] | None:
        """Colours that are equal for columns of one colour with the same values in the rows of each colour.

        Values are compared by hashes. None if the two sides differ.
        """
        return _coloured(*map(_column_keys, self._sides, colours, rows))


def _column_keys(side: _Side, colours: _Colours, rows: _Colours) -> Iterable[Hashable]:
    told_apart = len(set(rows)) > 1
    for colour, column in zip(colours, side.columns, strict=True):
        bag = Counter(zip(rows, column, strict=True) if told_apart else column)
        # Equal hashes of different bags cost pairings but never the verdict, which compares the rows.
        yield colour, hash(frozenset(bag.items()))


def _coloured(keys: Iterable[Hashable], other_keys: Iterable[Hashable]) -> tuple[_Colours, _Colours] | None:
    """A number for each key, equal for equal keys; None if the bags of keys differ."""
    numbers: dict[Hashable, int] = {}
    colours = [numbers.setdefault(key, len(numbers)) for key in keys]
    left, others = Counter(colours), []
    for key in other_keys:
        colour = numbers.get(key, -1)
        if not left[colour]:
            return None
        left[colour] -= 1
        others.append(colour)
    return (colours, others) if len(others) == len(colours) else None


def _marked(colours: _Colours, place: int) -> _Colours:
    """The colours with a new one for the column at `place`."""
    return [-1 if number == place else colour for number, colour in enumerate(colours)]
