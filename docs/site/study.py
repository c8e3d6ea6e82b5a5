"""The figures of the recorded seeds in docs/explanation/study.md and README.md, from files of docs/study.

    python docs/site/study.py [--seeds JOINED/study.json] [--demos outputs/demo ...]

It draws docs/study/pareto.svg and, from demo.json and pretrained.json, the grids of answers (`make pictures`), and
writes what stands between the marks `<!-- begin: NAME -->` and `<!-- end -->` of the pages. A file that is given is
first copied into docs/study.
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rl.common.cli import user_errors_exit
from rl.evaluation.analysis.trade_off import base_values, trade_offs_over_seeds
from rl.evaluation.over_seeds import SIGNIFICANT, read_values
from rl.evaluation.report.answer_grid import answer_files
from rl.evaluation.report.pareto_figure import pareto_files
from rl.evaluation.table import p_in_words

DOCS = Path(__file__).resolve().parents[1]
STUDY, PAGE, README = DOCS / "study", DOCS / "explanation" / "study.md", DOCS.parent / "README.md"
COLUMNS = ("Pass@1", "Pass@8", "Pass@32", "style entropy", "Pass@1, out of domain", "Pass@8, out of domain")
ABOVE_IN = ("Pass@1", "Pass@8", "Pass@1, out of domain", "Pass@8, out of domain")
# README's rows and columns: the names of methods in words, and those of measures with whether they are shares.
IN_README = {
    "grpo": "GRPO",
    "dph_js": "DPH-JS, the paper's method",
    "grpo_cap": "GRPO with a success cap",
    "dph_f_solved_cap": "success cap and rehearsal",
}
README_COLUMNS = {
    "Pass@1": "right in 1 try",
    "Pass@8": "solved in 8 tries",
    "style entropy": "style entropy",
    "Pass@1, out of domain": "new databases: 1 try",
    "Pass@8, out of domain": "8 tries",
}


def means(values: Mapping[str, Any]) -> str:
    """The page's table: the base, of both draws, and every method, with the seeds in which it is above the base in all
    of ABOVE_IN.

    Args:
        values: of a study.json (rl/evaluation/over_seeds.py).
    """
    base = {column: base_values(values, column) for column in COLUMNS}
    lines = [f"| | {' | '.join(COLUMNS)} | seeds above the base |", "|" + "---|" * (2 + len(COLUMNS))]
    lines.append(_row("base", [f"{np.mean(base[column]):.3f}" for column in COLUMNS], ""))
    for name, of in values["methods"].items():
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


def of_demos(folders: Sequence[Path]) -> dict[str, Any]:
    """What docs/study/recipe.json records of demos with other seeds: {method: {column: one value per seed}}.

    Args:
        folders: of demos with base, GRPO and the recipe.
    """
    reports, specs = (
        [json.loads((folder / f"{name}.json").read_text()) for folder in folders] for name in ("report", "spec")
    )

    def value(summary: Mapping[str, Any], column: str) -> float:
        found = summary["style_entropy"] if column == "style entropy" else summary["pass@k"][column.split("@")[1]]
        return found[0]

    found: dict[str, dict[str, list[float]]] = {}
    for name in ("base", "grpo", "recipe"):
        for column in COLUMNS:
            measure, _, other = column.partition(", ")
            split = "out_of_domain" if other else "in_domain"
            found.setdefault(name, {})[column] = [value(report[name][split], measure) for report in reports]
    return {"seeds": [spec["settings"]["seed"] for spec in specs], "methods": found}


def recipe_table(recorded: Mapping[str, Any]) -> str:
    """The page's table of demos: every seed, then the means."""
    lines = [f"| | seed | {' | '.join(COLUMNS)} |", "|" + "---|" * (2 + len(COLUMNS))]
    for name, of in recorded["methods"].items():
        label = {"base": "base", "grpo": "GRPO", "recipe": "recipe"}[name]
        seeds = {str(seed): number for number, seed in enumerate(recorded["seeds"])}
        rows = {seed: [of[column][number] for column in COLUMNS] for seed, number in seeds.items()}
        rows["mean"] = [np.mean(of[column]) for column in COLUMNS]
        lines += [_row(label, [seed, *(f"{cell:.3f}" for cell in cells)]) for seed, cells in rows.items()]
    return "\n".join(lines)


def recipe_in_words(recorded: Mapping[str, Any]) -> str:
    """README's sentence on the recipe."""
    shown = {
        name: [f"{np.mean(of[column]):.0%}".replace("%", "") for column in ("Pass@1", "Pass@8", "Pass@32")]
        for name, of in recorded["methods"].items()
    }
    one, eight, many = (" to ".join(shown[name][k] for name in ("base", "recipe")) for k in range(3))
    seeds = "one seed" if len(recorded["seeds"]) == 1 else f"{len(recorded['seeds'])} seeds"
    return (
        f"In {seeds} of the demo the recipe took right answers in one try from {one} %,\n"
        f"questions solved in 8 tries from {eight} % and in 32 tries from {many} %; GRPO ended at {shown['grpo'][0]}, "
        f"{shown['grpo'][1]} and {shown['grpo'][2]} %."
    )


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
    """{name: SVG} of the recorded reports that hold their answers: demo.json's answers.svg, pretrained_answers.svg."""
    found = {}
    for prefix, name in {"": "demo.json", "pretrained_": "pretrained.json"}.items():
        if answers := json.loads((STUDY / name).read_text()).get("_answers"):
            found |= {prefix + file: picture for file, picture in answer_files(answers).items()}
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=Path, metavar="JSON", help="the study.json of `dph study --parts`")
    parser.add_argument("--demos", type=Path, nargs="+", metavar="FOLDER", help="demos with other seeds")
    options, recorded, of_recipe = parser.parse_args(arguments), STUDY / "seeds.json", STUDY / "recipe.json"
    with user_errors_exit():
        values = read_values(options.seeds or recorded)
    if options.seeds:
        recorded.write_text(options.seeds.read_text())
    if options.demos:
        of_recipe.write_text(json.dumps(of_demos(options.demos), indent=1) + "\n")
    demos = json.loads(of_recipe.read_text())
    # The site wants tables apart from other lines.
    parts = {"means": means(values), "primary": primary(values), "recipe": recipe_table(demos)}
    parts["explored"] = means(read_values(STUDY / "explored.json"))
    parts = {name: f"\n{table}\n" for name, table in parts.items()}
    PAGE.write_text(written(PAGE.read_text(), parts))
    README.write_text(written(README.read_text(), {"seeds": in_readme(values), "recipe": recipe_in_words(demos)}))
    for name, picture in (answer_pictures() | pareto_files(trade_offs_over_seeds(values))).items():
        (STUDY / name).write_text(picture)


if __name__ == "__main__":
    main()
