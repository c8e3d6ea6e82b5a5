"""The figures of the recorded studies in docs/explanation/study.md, docs/tutorials/demo.md and README.md, from files
of docs/study.

    python docs/site/study.py [--board JSON] [--bases JSON] [--long JSON] [--smollm2 JSON] [--anchor JSON ...]

It draws docs/study/pareto.svg and, from demo.json, the grids of answers (`make pictures`), and writes the text between
the marks `<!-- begin: NAME -->` and `<!-- end -->` of the pages. What is given is first recorded in docs/study.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.data.json_text import loads_or_none
from rl.evaluation.analysis.trade_off import base_values, trade_offs_over_seeds
from rl.evaluation.over_seeds import SIGNIFICANT, values_of
from rl.evaluation.report.answer_grid import answer_files
from rl.evaluation.report.pareto_figure import pareto_files
from rl.evaluation.spec import BASE, BASE_AGAIN, LABELS
from rl.evaluation.table import p_in_words

DOCS = Path(__file__).resolve().parents[1]
STUDY, PAGE, README = DOCS / "study", DOCS / "explanation" / "study.md", DOCS.parent / "README.md"
TUTORIAL = DOCS / "tutorials" / "demo.md"
COLUMNS = ("Pass@1", "Pass@8", "Pass@32", "style entropy", "Pass@1, out of domain", "Pass@8, out of domain")
ABOVE_IN = ("Pass@1", "Pass@8", "Pass@1, out of domain", "Pass@8, out of domain")
# Methods of the older study that the page leaves out.
UNLISTED = ("dapo_exp", "dph_js_cap", "rft_solved")
# README's rows and columns: the names of methods in words, and those of measures with whether they are shares.
IN_README = {"grpo": "GRPO", "dph_js": "DPH-JS, the paper's method", "maxrl": "MaxRL", "recipe": "the recipe"}
README_COLUMNS = {
    "Pass@1": "right in 1 try",
    "Pass@8": "solved in 8 tries",
    "style entropy": "style entropy",
    "Pass@1, out of domain": "new databases: 1 try",
    "Pass@8, out of domain": "8 tries",
}


def means(values: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """The page's table: the base, of both draws, and every method, with the seeds in which it is above the base in all
    of ABOVE_IN.

    Args:
        values: of a study.json (rl/evaluation/over_seeds.py).
        without: methods that are left out.
    """
    base = {column: base_values(values, column) for column in COLUMNS}
    lines = [f"| | {' | '.join(COLUMNS)} | seeds above the base |", "|" + "---|" * (2 + len(COLUMNS))]
    lines.append(_row("base", [f"{np.mean(base[column]):.3f}" for column in COLUMNS], ""))
    for name, of in values["methods"].items():
        if name not in without:
            above = np.all([np.greater(of[column]["values"], base[column]) for column in ABOVE_IN], axis=0).sum()
            lines.append(_row(values["labels"][name], [f"{of[column]['mean']:.3f}" for column in COLUMNS], str(above)))
    return "\n".join(lines)


def primary(values: Mapping[str, Any]) -> str:
    """The table of the primary comparisons: a row for each pair of methods; differences that are decided are bold."""
    names = {**values["labels"], "base": "base"}
    columns = list(dict.fromkeys(column for of in values["primary"].values() for column in of))
    lines = [f"| | {' | '.join(columns)} |", "|" + "---|" * (1 + len(columns))]
    for pair, of in values["primary"].items():
        cells = [_difference(of[column]) if column in of else "" for column in columns]
        lines.append(_row(" minus ".join(names[name] for name in pair.split(" - ")), cells))
    return "\n".join(lines)


def in_readme(values: Mapping[str, Any]) -> str:
    """README's table, in per cent; the best mean of a column is bold."""
    base = {column: np.mean(base_values(values, column)) for column in README_COLUMNS}
    found = {"before training": base} | {
        label: {column: values["methods"][name][column]["mean"] for column in README_COLUMNS}
        for name, label in IN_README.items()
    }
    best = {column: max(of[column] for of in found.values()) for column in README_COLUMNS}
    seeds = f"{values['steps']} training steps, means of {len(values['seeds'])} seeds"
    lines = [f"| {seeds} | {' | '.join(README_COLUMNS.values())} |", "|" + "---|" * (1 + len(README_COLUMNS))]
    for label, of in found.items():
        cells = []
        for column, value in of.items():
            shown = f"{value:.2f}" if column == "style entropy" else f"{value:.0%}".replace("%", " %")
            cells.append(f"**{shown}**" if value == best[column] else shown)
        lines.append(_row(label, cells))
    return "\n".join(lines)


def of_anchor(paths: Iterable[Path]) -> dict[str, dict[str, float]]:
    """What docs/study/anchor.json records of a study's reports: {row: {column: mean over the seeds}}.

    Args:
        paths: the report.json of each seed, whose groups tell the schemas apart (rl/demo/study.py).
    """
    values: dict[str, dict[str, list[float]]] = {}
    for report in (json.loads(path.read_text()) for path in paths):
        for name, label in report["_labels"].items():
            row = values.setdefault(LABELS[BASE] if name in (BASE, BASE_AGAIN) else label, {})
            found = values_of(report[name], report["_solved_in"])
            found = {column: found[column] for column in COLUMNS[:4]}
            for schema, of in report[name]["out_of_domain"]["groups"]["schema"].items():
                found |= {f"Pass@{k}, {schema}": of["pass@k"][k][0] for k in ("1", "8")}
            for column, value in found.items():
                row.setdefault(column, []).append(value)
    seeds = {label: len(row["Pass@1"]) for label, row in values.items()}
    seeds[LABELS[BASE]] //= 2  # both draws
    return {
        label: {column: float(np.mean(of)) for column, of in row.items()} | {"seeds": seeds[label]}
        for label, row in values.items()
    }


def recorded_table(recorded: Mapping[str, Mapping[str, float]]) -> str:
    """The table of a file with {row: {column: value}}."""
    columns = list(next(iter(recorded.values())))
    lines = [f"| | {' | '.join(columns)} |", "|" + "---|" * (1 + len(columns))]
    for label, of in recorded.items():
        lines.append(_row(label, [str(of[c]) if isinstance(of[c], int) else f"{of[c]:.3f}" for c in columns]))
    return "\n".join(lines)


def _row(name: str, cells: Iterable[str], *more: str) -> str:
    return f"| {' | '.join([name, *cells, *more])} |"


def _difference(value: Mapping[str, Any]) -> str:
    mean, (low, high) = f"{value['mean']:+.3f}", value["interval"]
    decided = value["p_holm"] is not None and value["p_holm"] <= SIGNIFICANT
    return f"{f'**{mean}**' if decided else mean} [{low:+.3f}, {high:+.3f}], {p_in_words(value['p_holm'])}"


def written(page: str, parts: Mapping[str, str]) -> str:
    """The page with these parts between their marks."""
    for name, text in parts.items():
        begin, end = f"<!-- begin: {name} -->\n", "<!-- end -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}{text}\n{rest[rest.index(end) :]}"
    return page


def answer_pictures() -> dict[str, str]:
    """{name: SVG} of the grids of answers in the recorded report of the demo."""
    return answer_files(json.loads((STUDY / "demo.json").read_text())["_answers"])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--board", type=Path, metavar="JSON", help="the study.json of `dph study`")
    parser.add_argument("--bases", type=Path, metavar="JSON", help="a study.json whose seeds have a base model each")
    parser.add_argument("--anchor", type=Path, nargs="+", metavar="JSON", help="the report.json of each seed of --long")
    parser.add_argument("--long", type=Path, metavar="JSON", help="the study.json of the longer runs")
    parser.add_argument("--smollm2", type=Path, metavar="JSON", help="the study.json of `dph study --model smollm2`")
    options = parser.parse_args(arguments)
    with user_errors_exit():
        for name in ("board", "bases", "long", "smollm2"):
            if given := getattr(options, name):
                text = given.read_text()
                if "methods" not in (loads_or_none(text) or {}):
                    raise UserError(f"{given} is not the study.json of dph study: give the one of a finished study.")
                (STUDY / f"{name}.json").write_text(text)
    if options.anchor:
        (STUDY / "anchor.json").write_text(json.dumps(of_anchor(options.anchor), indent=1) + "\n")
    with user_errors_exit():
        values, older = (json.loads((STUDY / name).read_text()) for name in ("board.json", "seeds.json"))
    anchored = json.loads((STUDY / "anchor.json").read_text())
    for label in values["labels"].values():  # in the first table
        anchored.pop(label, None)
    parts = {"board": means(values), "primary": primary(values), "anchor": recorded_table(anchored)}
    longer = [name for name in older["methods"] if name.endswith("_180")]
    parts["older"] = means(older, without=[*values["methods"], *UNLISTED, *longer])
    # The site wants tables apart from other lines.
    PAGE.write_text(written(PAGE.read_text(), {name: f"\n{table}\n" for name, table in parts.items()}))
    tables = {"smollm2": means(json.loads((STUDY / "smollm2.json").read_text()))}
    for name in ("smollm2_readings", "pretrained_control"):
        tables[name] = recorded_table(json.loads((STUDY / f"{name}.json").read_text()))
    TUTORIAL.write_text(written(TUTORIAL.read_text(), {name: f"\n{table}\n" for name, table in tables.items()}))
    README.write_text(written(README.read_text(), {"board": in_readme(values)}))
    for name, picture in (answer_pictures() | pareto_files(trade_offs_over_seeds(values))).items():
        (STUDY / name).write_text(picture)


if __name__ == "__main__":
    main()
