"""What docs/explanation/study.md says of the study's seeds, from seeds.json, drawn.json and others in docs/study.

    python docs/site/study.py [--seeds JOINED/study.json] [--drawn DIR/study.json] [--drawn-rehearsed DIR/study.json]
                              [--long DIR/study.json] [--bases JOINED/study.json]

It draws docs/study/pareto.svg and, from demo.json and pretrained.json, the grids of answers (`make pictures`), and
rewrites five parts of the page, each from the table of means to the undecided comparisons. A file that is given is
first copied into docs/study. README.md and the rest of the page are written by hand, and tests/docs/test_study.py
compares them with the values.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.demo.study import SEEDS
from rl.evaluation.analysis.trade_off import base_values, trade_offs_over_seeds
from rl.evaluation.over_seeds import SIGNIFICANT, read_values
from rl.evaluation.report.answer_grid import answer_files
from rl.evaluation.report.pareto_figure import pareto_files
from rl.evaluation.spec import BASE, LABELS
from rl.evaluation.table import p_in_words

DOCS = Path(__file__).resolve().parents[1]
STUDY, PAGE = DOCS / "study", DOCS / "explanation" / "study.md"
TITLES = {
    "seeds": "## The seeds that have run",
    "drawn": "## Other groups for those at the cap",
    "drawn_rehearsed": "## The same with rehearsal",
    "long": "## After 400 steps",
    "bases": "## Other base models",
}
FIRST, LAST = "| | Pass@1 |", "What follows is descriptive.\n"
COLUMNS = ("Pass@1", "Pass@8", "Pass@32", "style entropy", "Pass@1, out of domain", "Pass@8, out of domain")
# The recipe was chosen on the first seeds: above the base's first draw in each of them in these columns. The other
# seeds test it.
CHOSEN_ON, ABOVE_IN = (1, 2, 3), ("Pass@1", "Pass@8", "Pass@1, out of domain", "Pass@8, out of domain")
WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
PICTURE = (
    '<picture><source media="(max-width: 640px)" srcset="../study/pareto_narrow.svg"><img src="../study/pareto.svg" '
    'alt="Pass@1 against Pass@8 of every method over {} seeds, in domain and out of domain, around the base model. '
    "Most capped methods have more right answers and more solved questions than the base in domain; GRPO and the "
    "paper's methods lose Pass@8.\"></picture>"
)


def section(values: Mapping[str, Any]) -> str:
    """The part of the page.

    Args:
        values: of a study.json (rl/evaluation/over_seeds.py).
    """
    run = len(values["seeds"])
    left = len({*SEEDS} - {*values["seeds"]})
    not_run = f"; {_in_words(left)} {'has' if left == 1 else 'have'} not run" if left else ""
    said = [
        PICTURE.format(_in_words(run)),
        *(found.sentence for found in trade_offs_over_seeds(values)),
        *_recipe(values),
    ]
    return "\n\n".join(_parts(values, said=said, not_run=not_run))


def compared(values: Mapping[str, Any]) -> str:
    """A part of the page with nothing but the means and the comparisons."""
    return "\n\n".join(_parts(values))


def bases(values: Mapping[str, Any]) -> str:
    """The part of the page about runs from other base models: the rows of each base model, then what all show.

    Raises:
        UserError: all runs have the same base model.
    """
    if not isinstance(values["base_seed"], list):
        raise UserError(
            f"All seeds have base model {values['base_seed']}: give the study.json that `dph study --parts` joined "
            "from runs with different --base-seed."
        )
    rows = [
        _row(name, [of[column]["values"][number] for column in COLUMNS])
        for number, seed in enumerate(values["base_seed"])
        for name, of in _named(values, f"base model {seed}")
    ]
    return "\n\n".join(_parts(values, rows, over="base models"))


def _parts(
    values: Mapping[str, Any],
    rows: Iterable[str] = (),
    said: Iterable[str] = (),
    not_run: str = "",
    over: str = "seeds",
) -> Iterator[str]:
    """The table, the primary comparisons if one is decided, and how many are not.

    Args:
        rows: of the table; the means unless given.
        said: paragraphs below the table.
        not_run: follows that number.
        over: what the interval is over.
    """
    rows = rows or [_row(name, [of[column]["mean"] for column in COLUMNS]) for name, of in _named(values, "base")]
    have = f"{_in_words(len(values['seeds']))} {over}"
    differences = [value for of in values["primary"].values() for value in of.values()]
    undecided = sum(not _decided(value) for value in differences)
    yield "\n".join([f"| | {' | '.join(COLUMNS)} |", "|" + "---|" * (1 + len(COLUMNS)), *rows])
    yield from said
    if undecided == len(differences):
        yield f"None of the {len(differences)} primary comparisons is decided with {have}{not_run}. {LAST}"
        return
    yield (
        f"The primary comparisons: the mean difference, its 95 % interval over the {have}, not corrected, and p, "
        f"corrected over all of them. Bold: p is at most {f'{SIGNIFICANT:.2f}'.lstrip('0')}."
    )
    yield _primary(values)
    number = f"{undecided} of the {len(differences)} are" if undecided else "None is"
    yield f"{number} undecided with {have}{not_run}. {LAST}"


def _named(values: Mapping[str, Any], base: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The columns of the base's draws, the first one under the name `base`, and every method's under its label."""
    for draw, of in values["bases"].items():
        yield base + LABELS[draw].removeprefix(LABELS[BASE]), of
    yield from ((values["labels"][name], of) for name, of in values["methods"].items())


def _row(name: str, cells: Iterable[float]) -> str:
    return f"| {name} | {' | '.join(f'{cell:.3f}' for cell in cells)} |"


def _in_words(number: int) -> str:
    return WORDS[number] if number < len(WORDS) else str(number)


def _recipe(values: Mapping[str, Any]) -> Iterator[str]:
    """How the recipe was chosen on the first seeds, if all of them are there, and whether the later ones agree."""
    if not {*CHOSEN_ON} <= {*values["seeds"]}:
        return
    first = {column: values["bases"][BASE][column]["values"] for column in ABOVE_IN}
    mean = {column: base_values(values, column) for column in ABOVE_IN}
    parts = []
    for name, of in values["methods"].items():
        if not all(above for seed, above in _above(values, of, first).items() if seed in CHOSEN_ON):
            continue
        above = _above(values, of, mean)
        chosen = [above.pop(seed) for seed in CHOSEN_ON]
        later = f" and in {sum(above.values())} of the {len(above)} later seeds" if above else ""
        parts.append(f"{values['labels'][name]} (above both draws' mean in {sum(chosen)} of them{later})")
    yield (
        f"The recipe was chosen on seeds {CHOSEN_ON[0]} to {CHOSEN_ON[-1]} with the base's first draw alone. Above it "
        "in Pass@1 and in Pass@8, in domain and out of domain, in each of these seeds: "
        f"{', '.join(parts) or 'no method'}."
    )


def _above(
    values: Mapping[str, Any], of_method: Mapping[str, Any], base: Mapping[str, Sequence[float]]
) -> dict[int, bool]:
    """{seed: whether a method is above these values of the base in every column}."""
    found = [np.greater(of_method[column]["values"], of_base) for column, of_base in base.items()]
    return dict(zip(values["seeds"], np.all(found, axis=0).tolist(), strict=True))


def _decided(value: Mapping[str, Any]) -> bool:
    return value["p_holm"] is not None and value["p_holm"] <= SIGNIFICANT  # None: a single seed


def _primary(values: Mapping[str, Any]) -> str:
    """The table of the primary comparisons: a row for each pair of methods; differences that are decided are bold."""
    names = {**values["labels"], "base": "base"}
    columns = list(dict.fromkeys(column for of in values["primary"].values() for column in of))
    lines = [f"| | {' | '.join(columns)} |", "|" + "---|" * (1 + len(columns))]
    for pair, of in values["primary"].items():
        cells = [_difference(of[column]) if column in of else "" for column in columns]
        lines.append(f"| {' minus '.join(names[name] for name in pair.split(' - '))} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _difference(value: Mapping[str, Any]) -> str:
    mean = f"{value['mean']:+.3f}"
    low, high = value["interval"]
    return f"{f'**{mean}**' if _decided(value) else mean} [{low:+.3f}, {high:+.3f}], {p_in_words(value['p_holm'])}"


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
    parser.add_argument("--drawn", type=Path, metavar="JSON", help="the study.json of the methods that draw others")
    parser.add_argument("--drawn-rehearsed", type=Path, metavar="JSON", help="the same with rehearsal")
    parser.add_argument("--long", type=Path, metavar="JSON", help="the study.json of runs of 400 steps")
    parser.add_argument("--bases", type=Path, metavar="JSON", help="the study.json of parts with other base models")
    given = parser.parse_args(arguments)
    parts = {"seeds": section, "drawn": compared, "drawn_rehearsed": compared, "long": compared, "bases": bases}
    for name, part in parts.items():
        path, recorded = getattr(given, name), STUDY / f"{name}.json"
        with user_errors_exit():
            values = read_values(path or recorded)
            text = part(values)
        if path:
            recorded.write_text(path.read_text())
        page = PAGE.read_text()
        start = page.index(FIRST, page.index(TITLES[name]))
        PAGE.write_text(page[:start] + text + page[page.index(LAST, start) + len(LAST) :])
    for name, picture in answer_pictures().items():
        (STUDY / name).write_text(picture)
    for name, picture in pareto_files(trade_offs_over_seeds(read_values(STUDY / "seeds.json"))).items():
        (STUDY / name).write_text(picture)


if __name__ == "__main__":
    main()
