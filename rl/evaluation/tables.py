"""The tables of a report, made from report.json: values and paired tests.

tables.md, report.html and the terminal show them (table.py).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rl.evaluation.analysis.questions import PLAIN
from rl.evaluation.measures import ANSWERS, MAIN_TABLE, heading, in_display_unit, interval_of, metrics_for
from rl.evaluation.spec import BASE, split_name
from rl.evaluation.table import Cell, Row, Table, p_cell, plain_columns

Summaries = Mapping[str, dict]  # {method: summary of a split or of a group of its questions}


def group_titles(summary: dict) -> dict[tuple[str, str], str]:
    """{(key, value): name of these questions} of a summary's groups; names differ."""
    groups = summary.get("groups", {})
    keys_with = Counter(value for values in groups.values() for value in values)

    def title(key: str, value: str) -> str:
        if value == PLAIN and len(groups) > 1:
            return f"not {key}"
        return value if keys_with[value] == 1 else f"{key} {value}"

    return {(key, value): title(key, value) for key, values in groups.items() for value in values}


def of_groups(summaries: Summaries) -> dict[str, Summaries]:
    """{name of the questions: {method: summary}} for each group of a split's questions."""
    titles = group_titles(next(iter(summaries.values())))
    return {
        title: {method: summary["groups"][key][value] for method, summary in summaries.items()}
        for (key, value), title in titles.items()
    }


def values_table(
    summaries: Summaries,
    metrics: Iterable[str],
    labels: Mapping[str, str],
    caption: str,
    colours: Mapping[str, str] | None = None,
) -> Table:
    """A row per method, and a column per metric that at least one method has a value of."""
    found = {metric: [metric_cell(summary, metric) for summary in summaries.values()] for metric in metrics}
    shown = {metric: cells for metric, cells in found.items() if any(cells)}
    rows = [
        Row(labels[method], "", [cells[i] for cells in shown.values()], colour=(colours or {}).get(method, ""))
        for i, method in enumerate(summaries)
    ]
    return Table(caption, plain_columns(*map(heading, shown)), rows)


def page_tables(
    split: str, summaries: Summaries, labels: Mapping[str, str], colours: Mapping[str, str], solved_in: int
) -> dict[str, Table]:
    """{title: table} of a split: the main table, Pass@k for every k, answers and lengths, each group of questions."""
    name, n = split_name(split), summaries[BASE]["n"]
    main = metrics_for(MAIN_TABLE, n, solved_in)
    parts = {
        name: (summaries, main, ""),
        f"Pass@k for every k, {name.lower()}": (summaries, [f"pass@{k}" for k in summaries[BASE]["pass@k"]], ""),
        f"Majority, variety and length, {name.lower()}": (summaries, metrics_for(ANSWERS, n, solved_in), ""),
    } | {f"{name}, {words}": (found, main, f"{words} ") for words, found in of_groups(summaries).items()}
    return {
        title: values_table(found, metrics, labels, counted(name, found, n, words), colours=colours)
        for title, (found, metrics, words) in parts.items()
    }


def counted(name: str, summaries: Summaries, n: int, words: str = "") -> str:
    """A caption that says how many questions a table is about."""
    prompts = next(iter(summaries.values()))["prompts"]
    return f"{name}: {prompts} {words}questions, {n} samples each, with 95 % intervals over questions."


def metric_cell(summary: dict, metric: str) -> Cell | None:
    """A metric in its display unit; None if undefined."""
    if isinstance(alone := summary.get(metric), float):  # a value without an interval
        value, digits = in_display_unit(metric, alone)
        return Cell(value, digits=digits)
    interval = interval_of(summary, metric)
    return None if interval is None else interval_cell(metric, interval)


def interval_cell(metric: str, interval: Sequence[float], signed: bool = False) -> Cell:
    (value, digits), (low, _), (high, _) = (in_display_unit(metric, bound) for bound in interval)
    return Cell(value, low, high, digits, signed)


def tests_table(split: str, tests: Iterable[dict], labels: Mapping[str, str]) -> Table:
    """The paired tests of a split (report.json's "_tests")."""
    rows = []
    for test in (test for test in tests if test["split"] == split):
        cells = [Cell(heading(test["metric"])), interval_cell(test["metric"], test["difference"], signed=True)]
        cells += [p_cell(test["p"]), p_cell(test["p_holm"]), Cell(test["verdict"])]
        rows.append(Row(f"{labels[test['first']]} − {labels[test['second']]}", "", cells))
    caption = (
        f"{split_name(split)}: paired differences with 95 % intervals, not corrected, and p-values of sign-flip "
        "permutation tests over questions, corrected by Holm over the metrics of a pair of methods."
    )
    columns = plain_columns("Metric", "Difference", "p", "p (Holm)", "verdict")
    return Table(caption, columns, rows, head="Methods")
