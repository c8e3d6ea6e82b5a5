"""The files of a comparison over seeds: values, tables, the picture of its trade-offs, and each seed's own report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from rl.common.errors import UserError
from rl.common.text import number_of
from rl.data.sample_file import SampleMetadata, read_metadata
from rl.evaluation.analysis.comparison import COMMON_SETTINGS
from rl.evaluation.analysis.findings import leading_methods
from rl.evaluation.analysis.over_seeds import (
    SIGNIFICANT,
    Difference,
    OfPairs,
    OverSeeds,
    SeedComparison,
    SeedValues,
    columns_of,
    compare_seeds,
    read_values,
    seed_values,
)
from rl.evaluation.analysis.trade_off import trade_offs_over_seeds
from rl.evaluation.report.pareto_figure import pareto_files, write_with_pictures
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import BASE, BASE_AGAIN, LABELS, ReportSpec
from rl.evaluation.table import STRONG, Cell, Row, Table, markdown, p_in_words, plain_columns

SIDES = {"Higher": 1, "Lower": -1}
# Keys of the values: those from a SeedComparison, and those that belong to one part of a study.
COMPARED = ("bases", "methods", "differences", "primary")
OF_A_PART = ("seconds_of_stages", "at_once")
# The seed of the study's base model; in parts that were joined and differ in it, a list with one for each seed.
BASE_SEED = "base_seed"
# What the random numbers of each seed's base came from. Older files lack it: they had the same ones for all seeds.
DRAWN_WITH = "drawn_with"
OF_SEEDS = ("seeds", BASE_SEED, DRAWN_WITH)
# {split: the number of its prompts and the SHA-256 of its data files}; older files have the number alone.
QUESTIONS = "questions"


def write_seeds(
    out: Path,
    name: str,
    specs: Mapping[int, ReportSpec],
    baselines: Sequence[str],
    facts: Mapping = {},
    primary: Mapping[tuple[str, str], Sequence[str]] = {},
) -> Path:
    """Write the tables and values as out/<name>.md and .json, the trade-offs as out/pareto.svg (pareto_figure.py), and
    each seed's report into out/seed_<n>/.

    Args:
        specs: {seed: specification of its report}; all have the same methods and splits.
        baselines: see compare_seeds.
        facts: further entries of the values.
        primary: see compare_seeds.

    Returns:
        The path of the tables.

    Raises:
        UserError: samples are missing or do not belong together.
    """
    reports = []
    for seed, spec in tqdm(specs.items(), "Comparing the methods", unit="seed"):
        spec.write(out / f"spec_seed_{seed}.json")
        reports.append(write_report(spec, out / f"seed_{seed}"))
    first = next(iter(specs.values()))
    labels = {method: first.methods[method].label for method in first.trained}
    bases = [method for method in (BASE, BASE_AGAIN) if method in first.methods]
    values = seed_values(reports, [*bases, *labels], first.solved_in)
    about = {
        "labels": labels,
        "columns": list(columns_of(reports[0][first.trained[0]], first.solved_in)),
        "splits": first.splits,
        "solved_in": first.solved_in,
        "roles": {method: role for method in labels if (role := first.methods[method].role)},
        "leading": leading_methods(first),
        "sampling": _sampling(first),
        DRAWN_WITH: [_of_base(spec).seed for spec in specs.values()],
        QUESTIONS: _questions(first),
    } | dict(facts)
    return _write_comparison(out, name, values, list(specs), about, baselines, primary)


def write_parts(
    out: Path,
    name: str,
    parts: Sequence[Path],
    baselines: Sequence[str],
    primary: Mapping[tuple[str, str], Sequence[str]] = {},
) -> Path:
    """Write the tables and the trade-offs of several comparisons together: same methods, different seeds.

    The base model may be another one in each part; the tables say so.

    Args:
        parts: files <name>.json of write_seeds.

    Raises:
        UserError: a file is not such a file, its methods, settings or questions differ from another one's, or two have
            a seed.
    """
    contents = [read_values(part) for part in parts]
    first = contents[0]
    of_all = {key for content in contents for key in content} - {*COMPARED, *OF_A_PART, *OF_SEEDS, QUESTIONS}
    about = {key: value for key, value in first.items() if key in of_all}
    seeds: list[int] = []
    of_bases: list[int | None] = []
    drawn_with: list[int | None] = []
    questions: dict[str, dict] = {}
    values: dict[str, list] = {method: [] for method in [*first["bases"], *first["methods"]]}
    for part, content in zip(parts, contents, strict=True):
        different = [key for key in sorted(of_all) if content.get(key) != first.get(key)]
        different += [key for key in ("bases", "methods") if content[key].keys() != first[key].keys()]
        different += _merge(questions, content.get(QUESTIONS, {}))
        if different:
            raise UserError(f"{part} and {parts[0]} differ in {', '.join(different)}: they are not of one study.")
        if twice := sorted({*seeds} & {*content["seeds"]}):
            raise UserError(f"{part} has seed {twice[0]}, which another part has too: leave one of them out.")
        seeds += content["seeds"]
        drawn_with += content.get(DRAWN_WITH) or [None] * len(content["seeds"])
        of_base = content.get(BASE_SEED)
        of_bases += of_base if isinstance(of_base, list) else [of_base] * len(content["seeds"])
        for method, of in (content["bases"] | content["methods"]).items():
            values[method] += [
                {column: found["values"][number] for column, found in of.items()}
                for number in range(len(content["seeds"]))
            ]
    if {*of_bases} != {None}:
        about[BASE_SEED] = of_bases[0] if len({*of_bases}) == 1 else of_bases
    about |= {DRAWN_WITH: drawn_with} if {*drawn_with} != {None} else {}
    about |= {QUESTIONS: questions} if questions else {}
    return _write_comparison(out, name, values, seeds, about, baselines, primary)


def _merge(known: dict[str, dict], questions: Mapping[str, Mapping]) -> list[str]:
    """Add what another part says of its questions. Returns in what it differs from what is known."""
    different = []
    for split, of in questions.items():
        facts = known.setdefault(split, {})
        different += [f"the {fact} of {split}" for fact in facts.keys() & of.keys() if facts[fact] != of[fact]]
        facts.update(of)
    return different


def _sampling(spec: ReportSpec) -> dict[str, float]:
    """How every model of a report was sampled, on its first split."""
    return {name: getattr(_of_base(spec), name) for name in COMMON_SETTINGS}


def _of_base(spec: ReportSpec) -> SampleMetadata:
    return read_metadata(spec.methods[BASE].splits[spec.splits[0]].samples)


def _questions(spec: ReportSpec) -> dict[str, dict]:
    """What every model of a report was asked (QUESTIONS)."""
    found = {split: read_metadata(files.samples) for split, files in spec.methods[BASE].splits.items()}
    return {split: {"prompts": of.rows, "sha256": sorted(of.data_files.values())} for split, of in found.items()}


def _write_comparison(
    out: Path,
    name: str,
    values: SeedValues,
    seeds: Sequence[int],
    about: Mapping,
    baselines: Sequence[str],
    primary: Mapping[tuple[str, str], Sequence[str]],
) -> Path:
    labels = about["labels"]
    found = compare_seeds(values, list(labels), baselines, about["columns"], primary, about.get(DRAWN_WITH))
    content = {key: _as_json(getattr(found, key)) for key in COMPARED} | {"seeds": list(seeds)} | dict(about)
    pareto = trade_offs_over_seeds(content)
    sentences = [trade_off.sentence for trade_off in pareto]
    if isinstance(about.get(BASE_SEED), list):
        sentences = [f"The seeds of their base models are {', '.join(map(str, about[BASE_SEED]))}.", *sentences]
    files = {
        f"{name}.json": json.dumps(content, indent=1, allow_nan=False) + "\n",
        f"{name}.md": seeds_page(found, labels, seeds, about["splits"][0], sentences),
    }
    write_with_pictures(out, files | pareto_files(pareto, about["leading"]))
    return out / f"{name}.md"


def seeds_page(
    found: SeedComparison, labels: Mapping[str, str], seeds: Sequence[int], split: str, sentences: Sequence[str] = ()
) -> str:
    """Markdown: tables with a row per method, of all questions and of groups, then the differences, and which of them
    are significant.

    Args:
        split: the one that columns without a split's name belong to.
        sentences: what else holds of all seeds, such as what pareto.svg shows.
    """
    over = (
        f"Mean over seeds {', '.join(map(str, seeds))} ± half of the 95 % interval over seeds (Student's t). "
        "Intervals are not corrected for the number of comparisons."
    )
    of_split = split.replace("_", " ")
    several = len(seeds) > 1
    parts = [f"{over if several else f'Seed {seeds[0]} alone.'} Columns that name no split: {of_split}.\n"]
    if BASE_AGAIN in found.bases and (sentences or found.primary):
        error = "; intervals of differences from it include their error" if found.primary and several else ""
        parts.append(f"Methods are compared with the mean of the base's two draws{error}.\n")
    parts += [f"{sentence}\n" for sentence in sentences]
    if found.primary:
        how = "p of paired t-tests, corrected by Holm over all of them" if several else "one seed cannot test them"
        parts += [f"Primary comparisons, named before the runs; {how}:\n", _differences(found.primary, labels)]
    shown = next(iter(found.methods.values()))
    if left_out := [column for column in found.columns if column not in shown]:
        parts.append(f"Left out, because a run has no value: {', '.join(left_out)}.\n")
    of_groups = [column for column in shown if column not in found.columns]
    parts.append(markdown(_values(found, labels, found.columns)))
    if of_groups:
        parts += [f"Groups of the questions, {of_split}:\n", markdown(_values(found, labels, of_groups))]
    if found.differences:
        tests = sum(map(len, found.differences.values()))
        how = (
            "seed by seed; p of paired t-tests, corrected by Holm over the columns of one pair (here are "
            f"{number_of(len(found.differences), 'pair')} with {number_of(tests, 'test')})"
        )
        parts.append(f"Differences, {how if several else 'which one seed cannot test'}:\n")
        if several:
            significant = {side: _significant(found.differences, labels, side) for side in SIDES}
            parts.append("".join(f"- {side} with p at most {SIGNIFICANT}:{w}\n" for side, w in significant.items()))
        parts.append(_differences(found.differences, labels))
    return "\n".join(parts)


def _as_json(rows: Mapping[str, Mapping[str, OverSeeds]]) -> dict[str, dict[str, dict]]:
    return {name: {column: asdict(value) for column, value in of.items()} for name, of in rows.items()}


def _differences(pairs: OfPairs, labels: Mapping[str, str]) -> str:
    rows = [Row(_minus(pair, labels), "", [*map(_cell, of.values())]) for pair, of in pairs.items()]
    return markdown(Table("", "", plain_columns(*next(iter(pairs.values()))), rows, head=""))


def _minus(pair: str, labels: Mapping[str, str]) -> str:
    return " minus ".join(labels.get(name) or LABELS[name].lower() for name in pair.split(" - "))


def _values(found: SeedComparison, labels: Mapping[str, str], columns: Sequence[str]) -> Table:
    shown = [column for column in columns if all(column in of for of in found.methods.values())]
    rows = [
        Row(LABELS[name].lower(), "", [Cell(values[c].mean, digits=3) if c in values else None for c in shown])
        for name, values in found.bases.items()
    ]
    rows += [Row(labels[name], "", [_cell(values[c]) for c in shown]) for name, values in found.methods.items()]
    return Table("", "", plain_columns(*shown), rows, head="")


def _cell(value: OverSeeds) -> Cell:
    note = f"± {(value.interval[1] - value.interval[0]) / 2:.3f}" if value.interval else ""
    if isinstance(value, Difference) and value.p_holm is not None:
        kind = STRONG if value.significant else ""
        return Cell(value.mean, digits=3, note=f"{note}, {p_in_words(value.p_holm)}", kind=kind)
    return Cell(value.mean, digits=3, note=note)


def _significant(pairs: OfPairs, labels: Mapping[str, str], side: str) -> str:
    """A list of the columns with a significant difference on this side, each with its pairs of methods."""
    found: dict[str, list[str]] = {}
    for pair, of in pairs.items():
        for column in (column for column, value in of.items() if value.significant and SIDES[side] * value.mean > 0):
            found.setdefault(column, []).append(_minus(pair, labels))
    return "".join(f"\n  - {column}: {'; '.join(of)}" for column, of in found.items()) or " nothing"
