"""Retrieve the values of a database that a question seems to name: BM25 over the distinct texts of its columns.

SQLite provides the index and its BM25 (FTS5), in memory. Retrieval is deterministic: values of equal rank keep the
order of the database.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing

from rl.common.errors import UserError
from rl.data.prepare.schema import TEXT_LENGTH, Schema, SchemaError, double_quoted, literal_of

# At most so many distinct texts of a column are indexed, in row order.
TEXTS_PER_COLUMN = 20_000
# At most so many of the best values are considered for a question.
_MOST_VALUES = 20
_WORD = re.compile(r"\w+")
# Nearly every question has these words, which would match titles of books and films.
_STOP_WORDS = frozenset(
    """a all an and any are as at be been by can did do does each for from give had has have how if in into is it its
    list many me more most much name of on or out over per please show than that the their them there these they this
    those to under was were what when where which who whose why will with""".split()  # noqa: SIM905
)


class ValueIndex:
    """An index of the texts of a database.

    Args:
        uri: the address that opens the file read-only.

    Raises:
        SchemaError: the database cannot be read.
        UserError: this Python's SQLite has no FTS5.
    """

    def __init__(self, uri: str, schema: Schema):
        self._index = sqlite3.connect("file::memory:", uri=True)
        try:
            self._index.execute("CREATE VIRTUAL TABLE texts USING fts5(value, place UNINDEXED, tokenize = 'porter')")
        except sqlite3.OperationalError as error:
            raise UserError(f"--value-tokens needs SQLite with FTS5 ({error}): use another Python, or 0.") from error
        self._places = [(table.name, column.name) for table in schema.tables for column in table.columns]
        try:
            with closing(sqlite3.connect(uri, uri=True)) as database:
                database.text_factory = lambda text: text.decode(errors="ignore")
                for place in range(len(self._places)):
                    rows = ((text, place) for text in self._texts(database, place))
                    self._index.executemany("INSERT INTO texts VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise SchemaError(f"the database cannot be read: {error}") from error

    def search(self, question: str, tokens: int, count: Callable[[str], int]) -> list[tuple[str, str, str]]:
        """As many as fit of the values that the question's words rank highest, as (table, column, literal).

        Args:
            tokens: the budget for all literals together.
            count: returns the number of tokens of a text.
        """
        words = dict.fromkeys(word for word in _WORD.findall(question.lower()) if word not in _STOP_WORDS)
        if not words:
            return []
        wanted = " OR ".join(f'"{word}"' for word in words)
        query = "SELECT value, place FROM texts WHERE texts MATCH ? ORDER BY rank, rowid LIMIT ?"
        found = []
        for text, place in self._index.execute(query, (wanted, _MOST_VALUES)):
            literal = literal_of(text)
            tokens -= count(f", {literal}")
            if tokens < 0:
                break
            found.append((*self._places[place], literal))
        return found

    def _texts(self, database: sqlite3.Connection, place: int) -> Iterator[str]:
        table, column = map(double_quoted, self._places[place])
        query = (
            f"SELECT DISTINCT {column} FROM {table} WHERE typeof({column}) = 'text' "
            f"AND length({column}) BETWEEN 1 AND {TEXT_LENGTH} LIMIT {TEXTS_PER_COLUMN}"
        )
        return (text for (text,) in database.execute(query))
