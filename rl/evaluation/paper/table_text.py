"""A table of results as Markdown and as LaTeX (booktabs), with intervals after the values."""

from dataclasses import dataclass

NO_VALUE = "–"


@dataclass(frozen=True)
class Cell:
    """A value with its confidence limits, if any."""

    value: float
    low: float | None = None
    high: float | None = None
    digits: int = 1

    def texts(self) -> tuple[str, str]:
        """The value and its limits, "" without any."""
        value, low, high = (x if x is None else f"{x:.{self.digits}f}" for x in (self.value, self.low, self.high))
        return str(value), "" if low is None else f"[{low}, {high}]"


@dataclass(frozen=True)
class Row:
    """A method's row, or a heading if `cells` is empty. source: paper or ours; empty if all rows are ours."""

    label: str
    source: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Table:
    """columns: (upper heading, lower heading); neighbours with the same upper heading share it."""

    name: str  # of the LaTeX label
    caption: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]

    @property
    def has_sources(self) -> bool:
        return any(row.source for row in self.rows)


def markdown(table: Table) -> str:
    """GitHub Markdown."""
    lead = ["Model", "Source"] if table.has_sources else ["Model"]
    head = [*lead, *(f"{upper} {lower}".strip() for upper, lower in table.columns)]
    lines = [head, ["---"] * len(lead) + ["---:"] * len(table.columns)]
    for row in table.rows:
        cells = [" ".join(filter(None, cell.texts())) if cell else NO_VALUE for cell in row.cells]
        heading = [f"**{row.label}**"] + [""] * (len(head) - 1)
        lines.append([row.label, row.source][: len(lead)] + cells if cells else heading)
    body = "\n".join(f"| {' | '.join(_markdown_escape(text) for text in line)} |" for line in lines)
    return f"### {table.caption}\n\n{body}\n"


def _markdown_escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def latex(table: Table) -> str:
    """A table environment; needs \\usepackage{booktabs}."""
    import pandas as pd  # loads slowly

    lead = [("", name) for name in ("Model", "Source")[: 1 + table.has_sources]]
    columns = lead + [(latex_escape(upper), latex_escape(lower)) for upper, lower in table.columns]
    rows = []
    for row in table.rows:
        texts = [latex_escape(row.label), latex_escape(row.source)][: len(lead)]
        heading = [rf"\textit{{{texts[0]}}}"] + [""] * (len(columns) - 1)
        rows.append([*texts, *map(_latex_cell, row.cells)] if row.cells else heading)
    has_upper = any(upper for upper, _ in columns)
    frame = pd.DataFrame(
        rows, columns=pd.MultiIndex.from_tuples(columns) if has_upper else [lower for _, lower in columns]
    )
    return frame.style.hide(axis="index").to_latex(
        caption=latex_escape(table.caption),
        label=f"tab:{table.name}",
        position="t",
        position_float="centering",
        column_format="l" * len(lead) + "r" * len(table.columns),
        multicol_align="c",
        hrules=True,
    )


def _latex_cell(cell: Cell | None) -> str:
    value, limits = cell.texts() if cell else ("--", "")
    return rf"{value} {{\scriptsize {limits}}}" if limits else value


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "\n": " ",
    "α": r"$\alpha$", "η": r"$\eta$", "–": "--", "−": "$-$",
}  # fmt: skip


def latex_escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
