"""report.html: one self-contained file, for a light or dark screen of any width."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

from rl.common.git_state import git_state
from rl.common.text import listed, number_of
from rl.evaluation.analysis.comparison import COMMON_SETTINGS, Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.analysis.trade_off import trade_offs
from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.answer_grid import AnswerGrid, Panel, shown_methods
from rl.evaluation.report.figures import Figures
from rl.evaluation.report.pareto_figure import NARROW, WIDE, pareto_figure
from rl.evaluation.report.question_browser import browser_data
from rl.evaluation.report.theme import COLOURS, ENVIRONMENT, Look, method_looks
from rl.evaluation.report.tiles import headline, tiles
from rl.evaluation.spec import BASE, BASE_AGAIN, split_name
from rl.evaluation.table import Table
from rl.evaluation.tables import page_tables, tests_table

LINKS = {
    "The paper": "https://arxiv.org/abs/2509.07430",
    "verl": "https://github.com/volcengine/verl",
}


def render_page(comparison: Comparison, tests: list[PairedTest], report: dict, logs: dict[str, TrainingLog]) -> str:
    """The whole page.

    Args:
        report: the content of report.json.
        logs: {method: its training log}; if it is empty, the page has no training section.
    """
    spec = comparison.spec
    looks, figures = method_looks(spec.labels), Figures(comparison)
    names = {name: look.label for name, look in looks.items() if name != BASE_AGAIN}
    grids = {split_name(split): AnswerGrid.of_split(comparison, split) for split in spec.splits}
    found, shown = trade_offs(comparison), shown_methods(comparison)
    return ENVIRONMENT.get_template("page.html").render(
        spec=spec,
        colours=COLOURS,
        headline=headline(comparison, shown, looks),
        ran=_ran(comparison),
        tiles=tiles(comparison, tests, shown, looks),
        split=split_name(spec.splits[0]),
        trade_offs=found,
        pareto={name: pareto_figure(found, of) for name, of in {"broad": WIDE, "slim": NARROW}.items() if found},
        notes=_notes(comparison),
        grids=_with_panels(comparison, grids, looks, shown),
        browser=browser_data(comparison, grids, names),
        values=_values(comparison, report["_labels"], looks),
        differences=[
            (
                split_name(split),
                figures.differences(split, tests, shown),
                tests_table(split, report["_tests"], spec.labels),
            )
            for split in spec.splits
        ],
        caveats=caveats(comparison),
        groups=figures.all(report.get("_progress", {}), logs),
        definitions=report["_definitions"],
        settings=spec.settings | {f"sampling: {name}": _of_all_splits(comparison, name) for name in COMMON_SETTINGS},
        seconds={stage: str(timedelta(seconds=round(seconds))) for stage, seconds in spec.seconds.items()},
        total=str(timedelta(seconds=round(sum(spec.seconds.values())))),
        provenance=provenance(comparison),
        links=LINKS,
    )


def _ran(comparison: Comparison) -> str:
    """What was compared on what."""
    spec, of_base = comparison.spec, comparison.samples[BASE]
    asked = listed(f"{of.prompts} questions ({split_name(split)})" for split, of in of_base.items())
    n = " or ".join(map(str, sorted({of.n for of in of_base.values()})))
    trained = listed(spec.labels[name] for name in spec.trained) if spec.trained else ""
    what = f"{trained}, trained from {spec.methods[BASE].label}. " if trained else ""
    return f"{what}{asked}, {n} answers each."


def _notes(comparison: Comparison) -> list[str]:
    """What could not be judged, and what was not sampled."""
    notes = [
        f"{comparison.spec.labels[name]}, {split}: for {samples.gold_failures} of {samples.correct.size} samples the "
        "reference query itself failed; they count as wrong."
        for name, splits in comparison.samples.items()
        for split, samples in splits.items()
        if samples.gold_failures
    ]
    for split, samples in comparison.samples[BASE].items():
        if number := len(samples.metadata.overlong_ids):
            notes.append(f"{split}: {number_of(number, 'prompt')} left out as too long.")
    return notes


def _with_panels(
    comparison: Comparison, grids: dict[str, AnswerGrid], looks: dict[str, Look], first: Sequence[str]
) -> dict[str, tuple[AnswerGrid, list[Panel], list[Panel]]]:
    """{name of a split: its grid, the panels that the page shows at once, and those behind "more models"}."""
    more = [name for name in looks if name not in (*first, BASE_AGAIN)]

    def panels(grid: AnswerGrid, methods: Iterable[str]) -> list[Panel]:
        return [grid.panel(comparison, method, looks[method]) for method in methods]

    return {name: (grid, panels(grid, first), panels(grid, more)) for name, grid in grids.items()}


def _values(comparison: Comparison, labels: dict[str, str], looks: dict[str, Look]) -> dict[str, Table]:
    """{title: table} of every split."""
    colours = {name: look.colour.css for name, look in looks.items()}
    found: dict[str, Table] = {}
    for split in comparison.spec.splits:
        summaries = {name: comparison.summaries[name][split] for name in looks}
        found |= page_tables(split, summaries, labels, colours, comparison.spec.solved_in)
    return found


def caveats(comparison: Comparison) -> list[str]:
    """Limits of the evidence: those of every report, then those of the specification."""
    texts = [
        "One training run per method: the intervals cover the choice of questions, not the training seed.",
        "Holm’s correction covers the metrics of one pair of methods on one split, not several pairs and splits.",
    ]
    if any(of.databases for of in comparison.questions.values()):
        texts.append("The tests treat questions as independent; questions about one database may not be.")
    if coupled := _drawn_as_the_base(comparison):
        texts.append(
            f"{listed(coupled)}: drawn with the base’s seed. Where the policy has hardly changed, its responses "
            "are then the base’s, so that the keep rate is too high and the share of lost prompts too low."
        )
    return texts + list(comparison.spec.caveats)


def _drawn_as_the_base(comparison: Comparison) -> list[str]:
    """Short names of the methods whose samples have the seed of the base's."""
    base = comparison.samples[BASE]
    return [
        comparison.spec.labels[name]
        for name, of_splits in comparison.samples.items()
        if name != BASE and any(of.metadata.seed == base[split].metadata.seed for split, of in of_splits.items())
    ]


def provenance(comparison: Comparison) -> dict[str, str]:
    """{what: text} for the end of the page; the commit is the program's."""
    spec = comparison.spec
    state = git_state(Path(__file__).parent)
    facts = {"Commit": state["revision"][:12] + (", with changes" if state["changed"] else "")} if state else {}
    if "seed" in spec.settings:
        facts["Training seed"] = str(spec.settings["seed"])
    seeds = {name: comparison.samples[name][spec.splits[0]].metadata.seed for name in spec.methods}
    each = ", ".join(f"{spec.labels[name]} {seed}" for name, seed in seeds.items())
    facts["Sampling seeds"] = each if len(set(seeds.values())) > 1 else str(seeds[BASE])
    facts["Commands"] = "; ".join([*spec.commands, "dph report --spec spec.json --out . (this page)"])
    return facts


def _of_all_splits(comparison: Comparison, setting: str) -> object:
    """A sampling setting: one value if all splits have the same, else the value of each split."""
    values = {split: getattr(drawn.metadata, setting) for split, drawn in comparison.samples[BASE].items()}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{split_name(split)} {value}" for split, value in values.items())
