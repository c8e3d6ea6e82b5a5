"""Whether two results are equal under some permutation of their columns, without trying the permutations.

Ordered rows: a column is its list of values, so the bags of columns decide. Unordered rows: the problem is one of
isomorphism, solved as such problems are (McKay and Piperno 2014, "Practical graph isomorphism, II"): equal columns are
merged, the others are coloured by their bags of values, the colours are refined through the rows until they are
stable, and where several columns still share a colour one of them is singled out and the refinement goes on. Results
of queries are settled by the first colours; symmetric ones (identity matrices) take one singling out per column.
"""

from collections import Counter
from itertools import chain
from typing import NamedTuple

from rl.scorer.sql.execute import Row, Value

Column = tuple[Value, ...]


class _Table(NamedTuple):
    """The distinct columns of a result and their colours.

    columns[i]: values by row. copies[i]: how often the column occurs. colours[i]: equal for columns that may
    correspond; colours are hashes, the same function of the same values on both sides.
    """

    columns: list[Column]
    copies: list[int]
    colours: list[int]

    @classmethod
    def of(cls, rows: list[Row]) -> "_Table":
        counts = Counter(zip(*rows, strict=True))
        columns, copies = list(counts), list(counts.values())
        # A sum of hashes is a hash of the bag; 1-tuples, because small integers are their own hashes.
        bags = [sum(map(hash, zip(column, strict=True))) for column in columns]
        return cls(columns, copies, [hash(colour) for colour in zip(copies, bags, strict=True)])

    def refined(self) -> list[int]:
        """Colours that also tell apart columns whose values stand in differently coloured rows."""
        hashes = [[hash((c, v)) for v in column] for c, column in zip(self.colours, self.columns, strict=True)]
        row_colours = [sum(cells) for cells in zip(*hashes, strict=True)]
        return [
            hash((colour, sum(map(hash, zip(row_colours, column, strict=True)))))
            for colour, column in zip(self.colours, self.columns, strict=True)
        ]

    def with_colours(self, colours: list[int]) -> "_Table":
        return _Table(self.columns, self.copies, colours)

    def singled_out(self, index: int) -> "_Table":
        colours = list(self.colours)
        colours[index] = hash(("singled out", colours[index]))
        return self.with_colours(colours)

    def bag_of_rows(self) -> Counter:
        """The rows with their columns, copies included, in the order of the colours, which must all differ."""
        order = sorted(range(len(self.columns)), key=self.colours.__getitem__)
        return Counter(zip(*(self.columns[i] for i in order for _ in range(self.copies[i])), strict=True))


def equal_under_column_permutation(gold: list[Row], predicted: list[Row], ordered: bool) -> bool:
    """Whether some permutation of `predicted`'s columns makes its bag of rows (`ordered`: its list) equal `gold`'s.

    Two results without rows are equal, whatever their columns.
    """
    if len(gold) != len(predicted):
        return False
    if gold == predicted:
        return True
    if len(gold[0]) != len(predicted[0]):
        return False
    if ordered:
        return Counter(zip(*gold, strict=True)) == Counter(zip(*predicted, strict=True))
    if Counter(gold) == Counter(predicted):
        return True
    gold_table, predicted_table = _Table.of(gold), _Table.of(predicted)
    if len(set(gold_table.colours)) < len(gold_table.colours):
        # Python hashes -1 as it hashes -2: columns of such values would look alike for ever, and all orders be tried.
        values = set(chain.from_iterable(gold))
        if values != set(chain.from_iterable(predicted)):
            return False
        numbers = dict(zip(values, range(len(values)), strict=True))
        gold_table, predicted_table = _Table.of(_numbered(gold, numbers)), _Table.of(_numbered(predicted, numbers))
    return _isomorphic(gold_table, predicted_table)


def _numbered(rows: list[Row], numbers: dict[Value, int]) -> list[Row]:
    return [tuple(map(numbers.__getitem__, row)) for row in rows]


def _isomorphic(gold: _Table, predicted: _Table) -> bool:
    refined = _refine(gold, predicted)
    if refined is None:
        return False
    gold, predicted = refined
    shared = [colour for colour, count in Counter(gold.colours).items() if count > 1]
    if not shared:
        return gold.bag_of_rows() == predicted.bag_of_rows()
    sizes = Counter(gold.colours)
    colour = min(shared, key=lambda shared_colour: (sizes[shared_colour], shared_colour))
    singled = gold.singled_out(gold.colours.index(colour))
    candidates = [i for i, other in enumerate(predicted.colours) if other == colour]
    return any(_isomorphic(singled, predicted.singled_out(i)) for i in candidates)


def _refine(gold: _Table, predicted: _Table) -> tuple[_Table, _Table] | None:
    """Both with stable colours, or None as soon as their colours differ."""
    classes = 0
    while True:
        if sorted(gold.colours) != sorted(predicted.colours):
            return None
        if len(set(gold.colours)) in (classes, len(gold.colours)):
            return gold, predicted
        classes = len(set(gold.colours))
        gold, predicted = gold.with_colours(gold.refined()), predicted.with_colours(predicted.refined())
