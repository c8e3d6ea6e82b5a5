"""Whether two results are equal under some permutation of their columns, without trying all permutations.

Ordered rows: a column is its list of values, so the bags of columns decide. Unordered rows: gold's columns get partners
one after the other, among predicted columns with the same bag of values, and a choice stands if the rows of the columns
paired so far are equal as bags. Equal columns are merged first, so that only unequal columns of one bag of values leave
a choice, and of those each wrong one is given up when it first tells rows apart.
"""

from collections import Counter

from rl.scorer.sql.execute import Row, Value

Column = tuple[Value, ...]


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
    columns, others = Counter(zip(*gold, strict=True)), Counter(zip(*predicted, strict=True))
    if ordered or columns == others:
        return columns == others
    if Counter(gold) == Counter(predicted):
        return True
    looks, other_looks = _looks(columns), _looks(others)
    if Counter(looks) != Counter(other_looks):
        return False
    alike = {look: [other for other, of in zip(others, other_looks, strict=True) if of == look] for look in looks}
    pairs = sorted(zip(columns, (alike[look] for look in looks), strict=True), key=lambda pair: len(pair[1]))
    certain = [partners[0] for _, partners in pairs if len(partners) == 1]
    # Rows that differ only as whole ones, such as those of even and of odd parity, would take every permutation.
    if len(certain) < len(pairs) and not _equal_bags_of_values(gold, predicted):
        return False
    return _paired([column for column, _ in pairs], [partners for _, partners in pairs], certain)


def _looks(columns: dict[Column, int]) -> list[tuple[int, int]]:
    """Of each column how often it occurs and a hash of its bag of values, in which columns may agree by chance."""
    return [(copies, hash(frozenset(Counter(column).items()))) for column, copies in columns.items()]


def _equal_bags_of_values(gold: list[Row], predicted: list[Row]) -> bool:
    """Whether the bags of values of the rows are equal as bags, as far as hashes tell."""
    # Python hashes -1 as it hashes -2.
    numbers: dict[Value, int] = {}

    def bag(row: Row) -> int:
        return hash(frozenset(Counter(numbers.setdefault(value, len(numbers)) for value in row).items()))

    return Counter(map(bag, gold)) == Counter(map(bag, predicted))


def _paired(columns: list[Column], partners: list[list[Column]], chosen: list[Column]) -> bool:
    """Whether the rows of the first columns and of their `chosen` partners are equal, and the others have partners."""
    if Counter(zip(*columns[: len(chosen)], strict=True)) != Counter(zip(*chosen, strict=True)):
        return False
    if len(chosen) == len(columns):
        return True
    left = [column for column in partners[len(chosen)] if column not in chosen]
    return any(_paired(columns, partners, [*chosen, column]) for column in left)
