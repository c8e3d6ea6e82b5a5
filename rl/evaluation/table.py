"""A table of results, written as Markdown and text; report/page.html writes it as HTML."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

NO_VALUE = "–"


@dataclass(frozen=True)
class Cell:
    """A number with its confidence limits, if any, or words.

    Attributes:
        digits: decimals of a number.
        signed: show the sign, also of a number that rounds to 0, so that one sees on which side of 0 a limit is.
        note: shown in place of the limits.
        strong: bold in Markdown.
        above_zero: show a number that rounds to 0 as "< 0.001", because it is not 0.
    """

    value: float | str
    low: float | None = None
    high: float | None = None
    digits: int = 1
    signed: bool = False
    note: str = ""
    strong: bool = False
    above_zero: bool = False

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else self._number(self.value)

    @property
    def behind(self) -> str:
        """The limits, or the note."""
        if self.low is None or self.high is None:
            return self.note
        return f"[{self._number(self.low)}, {self._number(self.high)}]"

    def _number(self, value: float) -> str:
        if self.above_zero and round(value, self.digits) == 0:
            return f"< {10**-self.digits:.{self.digits}f}"
        if not self.signed:
            return f"{value:.{self.digits}f}"
        return f"{value:+.{self.digits}f}".replace("-", "−") if value else f"{0:.{self.digits}f}"


def p_cell(p: float) -> Cell:
    return Cell(p, digits=3, above_zero=True)


def p_in_words(p: float) -> str:
    """p 0.012, or p < 0.001."""
    return f"p {p_cell(p).text}"


@dataclass(frozen=True)
class Row:
    """A row, or a heading if `cells` is empty.

    Attributes:
        source: paper or ours; empty if all rows are ours.
        colour: CSS, on the page.
    """

    label: str
    source: str
    cells: Sequence[Cell | None]
    colour: str = ""


@dataclass(frozen=True)
class Table:
    """
    Attributes:
        columns: (upper heading, lower heading); adjacent columns with the same upper heading share it.
        head: the heading of the labels.
    """

    caption: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Row]
    head: str = "Model"

    @property
    def lead(self) -> list[str]:
        """The headings of the labels and, if there are any, the sources."""
        return [self.head, "Source"] if any(row.source for row in self.rows) else [self.head]

    @property
    def to_the_right(self) -> list[bool]:
        """For each column, including those of labels and sources, whether it has numbers."""
        cells = [[row.cells[i] for row in self.rows if row.cells] for i in range(len(self.columns))]
        return [False] * len(self.lead) + [not any(c and isinstance(c.value, str) for c in of) for of in cells]


def plain_columns(*headings: str) -> tuple[tuple[str, str], ...]:
    """Columns without upper headings."""
    return tuple(("", heading) for heading in headings)


def markdown(table: Table) -> str:
    """GitHub Markdown: the caption as a heading, if there is one, and the table."""
    lead = table.lead
    head = [*lead, *(f"{upper} {lower}".strip() for upper, lower in table.columns)]
    lines = [head, ["---:" if right else "---" for right in table.to_the_right]]
    for row in table.rows:
        cells = [_markdown_cell(cell) for cell in row.cells]
        heading = [f"**{row.label}**"] + [""] * (len(head) - 1)
        lines.append([row.label, row.source][: len(lead)] + cells if cells else heading)
    body = "".join(f"| {' | '.join(_markdown_escape(text) for text in line)} |\n" for line in lines)
    return f"### {table.caption}\n\n{body}" if table.caption else body


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return NO_VALUE
    text = " ".join(filter(None, (cell.text, cell.behind)))
    return f"**{text}**" if cell.strong else text


def _markdown_escape(text: str) -> str:
    # A "<" before a blank begins no tag.
    escaped = re.sub(r"<(?! )", "&lt;", text.replace("\\", "\\\\").replace("|", "\\|"))
    return escaped.replace("\n", " ")


def as_text(table: Table) -> str:
    """For a terminal: the caption, if there is one, and aligned columns, words to the left and numbers to the right;
    without limits and notes."""
    lead = table.lead
    lines = [[*lead, *(f"{upper} {lower}".strip() for upper, lower in table.columns)]]
    for row in table.rows:
        cells = [cell.text if cell else "-" for cell in row.cells]
        lines.append([row.label, row.source][: len(lead)] + cells)
    columns = [*zip_longest(*lines, fillvalue="")]
    widths = [max(map(len, column)) for column in columns]
    shown = [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, table.to_the_right, strict=False)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([table.caption, *shown] if table.caption else shown) + "\n"
