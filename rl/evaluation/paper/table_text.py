"""A table of results as Markdown and as LaTeX (booktabs), with intervals behind the values."""

from dataclasses import dataclass

NO_VALUE = "–"


@dataclass(frozen=True)
class Cell:
    """A value with its confidence limits, where there are any; unit: per cent (one or two decimals) or a number."""

    value: float
    low: float | None = None
    high: float | None = None
    digits: int = 1


@dataclass(frozen=True)
class Row:
    """A method's line, or a heading where `cells` is empty. source: paper or ours; empty where all is ours."""

    label: str
    source: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Table:
    """columns: (upper heading, lower heading); neighbours with one upper heading share it."""

    name: str  # of its label in LaTeX
    caption: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]

    @property
    def has_sources(self) -> bool:
        return any(row.source for row in self.rows)


def markdown(table: Table) -> str:
    """GitHub's Markdown; every line has the same number of columns."""
    lead = ["Model", "Source"] if table.has_sources else ["Model"]
    head = [*lead, *(f"{upper} {lower}".strip() for upper, lower in table.columns)]
    lines = [head, ["---"] * len(lead) + ["---:"] * len(table.columns)]
    for row in table.rows:
        if not row.cells:
            lines.append([f"**{row.label}**"] + [""] * (len(head) - 1))
            continue
        lines.append([row.label, row.source][: len(lead)] + [_markdown_cell(cell) for cell in row.cells])
    body = "\n".join(f"| {' | '.join(_markdown_escape(text) for text in line)} |" for line in lines)
    return f"### {table.caption}\n\n{body}\n"


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return NO_VALUE
    value = f"{cell.value:.{cell.digits}f}"
    return value if cell.low is None else f"{value} [{cell.low:.{cell.digits}f}, {cell.high:.{cell.digits}f}]"


def _markdown_escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def latex(table: Table) -> str:
    """A table environment; needs \\usepackage{booktabs}."""
    lead = ["Model", "Source"] if table.has_sources else ["Model"]
    width = len(lead) + len(table.columns)
    lines = [
        r"\begin{table}[t]",
        r"\centering\small",
        rf"\caption{{{latex_escape(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{'l' * len(lead)}{'r' * len(table.columns)}}}",
        r"\toprule",
        *_upper_head(table, len(lead)),
        _line([*map(latex_escape, lead), *(latex_escape(lower) for _, lower in table.columns)]),
        r"\midrule",
    ]
    for row in table.rows:
        if not row.cells:
            lines.append(_line([rf"\multicolumn{{{width}}}{{l}}{{\textit{{{latex_escape(row.label)}}}}}"]))
            continue
        texts = [latex_escape(row.label), latex_escape(row.source)][: len(lead)]
        lines.append(_line(texts + [_latex_cell(cell) for cell in row.cells]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"]) + "\n"


def _upper_head(table: Table, lead: int) -> list[str]:
    """Each upper heading over the columns that share it, with a rule below; nothing where no column has one."""
    spans: list[tuple[str, int]] = []
    for upper, _ in table.columns:
        if spans and spans[-1][0] == upper:
            spans[-1] = (upper, spans[-1][1] + 1)
        else:
            spans.append((upper, 1))
    if not any(upper for upper, _ in spans):
        return []
    cells, rules, first = [""] * lead, [], lead + 1
    for upper, columns in spans:
        cells.append(rf"\multicolumn{{{columns}}}{{c}}{{{latex_escape(upper)}}}" if upper else "")
        if upper:
            rules.append(rf"\cmidrule(lr){{{first}-{first + columns - 1}}}")
        first += columns
    return [_line(cells), "".join(rules)]


def _line(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(cell: Cell | None) -> str:
    if cell is None:
        return "--"
    value = f"{cell.value:.{cell.digits}f}"
    limits = "" if cell.low is None else f"[{cell.low:.{cell.digits}f}, {cell.high:.{cell.digits}f}]"
    return rf"{value} {{\scriptsize {limits}}}" if limits else value


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "\n": " ",
    "α": r"$\alpha$", "η": r"$\eta$", "–": "--", "−": "$-$",
}  # fmt: skip


def latex_escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
