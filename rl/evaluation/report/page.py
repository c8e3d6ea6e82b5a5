"""report.html: one self-contained file, for a light or dark screen of any width."""

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from markupsafe import Markup

from rl.common.git_state import git_state
from rl.common.installed import installed_version
from rl.common.text import duration, listed, number_of
from rl.evaluation.analysis.claims import INCONCLUSIVE, Claim
from rl.evaluation.analysis.comparison import COMMON_SETTINGS, Comparison
from rl.evaluation.analysis.findings import Findings
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.analysis.trade_off import TradeOff, trade_offs
from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.answer_grid import AnswerGrid, Panel, shown_methods
from rl.evaluation.report.environment import ENVIRONMENT
from rl.evaluation.report.figures import Figures
from rl.evaluation.report.headline import Headline, style_sentences
from rl.evaluation.report.pareto_figure import NARROW, WIDE, pareto_figure
from rl.evaluation.report.preview import HEIGHT, WIDTH
from rl.evaluation.report.question_browser import browser_data
from rl.evaluation.report.theme import COLOURS, Look, method_looks
from rl.evaluation.report.tiles import tiles
from rl.evaluation.report.training_figures import ON_OWN_PROMPTS, training_figures
from rl.evaluation.spec import BASE, BASE_AGAIN, split_name
from rl.evaluation.table import Table
from rl.evaluation.tables import claims_table, page_tables, tests_table

LINKS = {
    "The paper": "https://arxiv.org/abs/2509.07430",
    "verl": "https://github.com/volcengine/verl",
}
PACKAGES = ("dph-rl", "verl", "torch", "transformers", "vllm", "numpy", "matplotlib")


def render_page(
    comparison: Comparison,
    claims: list[Claim],
    tests: list[PairedTest],
    report: dict,
    logs: dict[str, TrainingLog],
    picture: str,
) -> str:
    """The whole page.

    Args:
        report: the content of report.json.
        logs: {method: its training log}; if it is empty, the page has no training section.
        picture: the https address of the picture that a link to the page shows; "" for none.
    """
    spec = comparison.spec
    looks, figures = method_looks(spec.short_names), Figures(comparison)
    shown = {name: look.label for name, look in looks.items() if name != BASE_AGAIN}
    grids = {split_name(split): AnswerGrid.of_split(comparison, split) for split in spec.splits}
    findings, found = Findings(comparison, tests), trade_offs(comparison, tests)
    top = Headline(findings, looks)
    training, more_training = training_figures(spec, logs)
    return ENVIRONMENT.get_template("page.html").render(
        spec=spec,
        colours=COLOURS,
        picture=picture,
        picture_size=(WIDTH, HEIGHT),
        top=top,
        tiles=tiles(findings, looks, top.title()),
        split=split_name(spec.splits[0]),
        prompts=comparison.samples[BASE][spec.splits[0]].prompts,
        trade_offs=found,
        pareto=_pareto(found, findings.leading, looks),
        failed_gold=_failed_gold(comparison),
        left_out=_left_out(comparison),
        grids=_with_panels(comparison, grids, looks),
        browser=browser_data(comparison, grids, shown),
        styles=figures.of_styles(),
        about_styles=style_sentences(comparison, looks),
        values=_values(comparison, report["_labels"], looks),
        claims=[
            (
                claims_table(split, report["_claims"], spec.short_names),
                tests_table(split, report["_tests"], spec.short_names),
            )
            for split in spec.splits
        ],
        caveats=caveats(comparison, claims),
        groups=figures.of_evaluation(report.get("_progress", {})),
        training=training,
        more_training=more_training,
        on_own_prompts=ON_OWN_PROMPTS,
        definitions=report["_definitions"],
        settings=spec.settings | {f"sampling: {name}": _of_all_splits(comparison, name) for name in COMMON_SETTINGS},
        seconds={stage: duration(seconds) for stage, seconds in spec.seconds.items()},
        total=duration(sum(spec.seconds.values())),
        provenance=provenance(comparison),
        links=LINKS,
    )


def _pareto(found: list[TradeOff], leading: Sequence[str], looks: dict[str, Look]) -> dict[str, Markup]:
    """{width of the screen: the figure of the trade-offs}."""
    layouts = {"broad": WIDE, "slim": NARROW} if found else {}
    return {
        screen: pareto_figure(found, leading, layout, file=False, looks=looks) for screen, layout in layouts.items()
    }


def _failed_gold(comparison: Comparison) -> list[tuple[str, str, int, int]]:
    """(method, split, samples whose gold query failed, all samples), where some failed."""
    return [
        (comparison.spec.methods[name].label, split, samples.gold_failures, samples.correct.size)
        for name, splits in comparison.samples.items()
        for split, samples in splits.items()
        if samples.gold_failures
    ]


def _left_out(comparison: Comparison) -> dict[str, str]:
    """{split: how many prompts were too long to be sampled}, where some were."""
    numbers = {split: len(samples.metadata.overlong_ids) for split, samples in comparison.samples[BASE].items()}
    return {split: number_of(number, "prompt") for split, number in numbers.items() if number}


def _with_panels(
    comparison: Comparison, grids: dict[str, AnswerGrid], looks: dict[str, Look]
) -> dict[str, tuple[AnswerGrid, list[Panel], list[Panel]]]:
    """{name of a split: its grid, the panels that the page shows at once, and those behind "more models"}."""
    first = shown_methods(comparison)
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


def caveats(comparison: Comparison, claims: list[Claim]) -> list[str]:
    """Limits of the evidence, one or two sentences each: those of every report, then those of the specification."""
    spec = comparison.spec
    prompts = {split: comparison.samples[BASE][split].prompts for split in spec.splits}
    of_each = listed(f"{number} ({split_name(split)})" for split, number in prompts.items())
    numbers = of_each if len({*prompts.values()}) > 1 else f"{prompts[spec.splits[0]]}"
    compared = [claim for claim in claims if claim.p_holm is not None]
    uncertain = sum(claim.verdict == INCONCLUSIVE for claim in compared)
    texts = [
        "One training run per method: the intervals cover the choice of prompts, not the training seed. How much "
        "another seed would move the values is not measured here.",
        "Holm’s correction covers the metrics of one pair of methods on one split, not several pairs and splits.",
        f"With {numbers} prompts per split, a difference of a few points may be chance"
        + (f": {uncertain} of {len(compared)} here are inconclusive." if uncertain else "."),
        "Several styles are not a higher Pass@k: a model can keep its styles and solve no more prompts.",
    ]
    if databases := {split: of.databases for split, of in comparison.questions.items() if of.databases}:
        of_splits = (f"{number_of(len(of), 'database')} ({split_name(split)})" for split, of in databases.items())
        texts.append(
            f"The tests treat questions as independent. They are about {listed(of_splits)}, and effects that differ "
            "between databases make the intervals too narrow."
        )
    if coupled := _drawn_as_the_base(comparison):
        texts.append(
            f"{listed(coupled)}: drawn with the base’s seed. Where the policy has hardly changed, its responses "
            "are then the base’s, so that the keep rate is too high and the share of lost prompts too low."
        )
    if not any(name.startswith("dapo") for name in spec.methods):
        texts.append(
            "DAPO without a divergence term is not among the methods. Clip-higher and training on the hard prompts "
            "alone raise Pass@8 too, so a gain over GRPO may not come from the divergence."
        )
    return texts + list(spec.caveats)


def _drawn_as_the_base(comparison: Comparison) -> list[str]:
    """Short names of the methods whose samples have the seed of the base's."""
    base = comparison.samples[BASE]
    return [
        comparison.spec.short_names[name]
        for name, of_splits in comparison.samples.items()
        if name != BASE and any(of.metadata.seed == base[split].metadata.seed for split, of in of_splits.items())
    ]


def provenance(comparison: Comparison) -> dict[str, str]:
    """{what: text} for the end of the page; versions are those of the environment that writes the page."""
    spec = comparison.spec
    state = git_state(Path(__file__).parent)
    facts = {"Commit": state["revision"][:12] + (", with changes" if state["changed"] else "")} if state else {}
    if "seed" in spec.settings:
        facts["Training seed"] = str(spec.settings["seed"])
    seeds = {name: comparison.samples[name][spec.splits[0]].metadata.seed for name in spec.methods}
    each = ", ".join(f"{spec.short_names[name]} {seed}" for name, seed in seeds.items())
    facts["Sampling seeds"] = each if len(set(seeds.values())) > 1 else str(seeds[BASE])
    facts["Commands"] = "; ".join([*spec.commands, "dph report --spec spec.json --out . (this page)"])
    versions = {"Python": platform.python_version()} | {package: installed_version(package) for package in PACKAGES}
    return facts | {"Versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version)}


def _of_all_splits(comparison: Comparison, setting: str) -> object:
    """A sampling setting: one value if all splits have the same, else the value of each split."""
    values = {split: getattr(drawn.metadata, setting) for split, drawn in comparison.samples[BASE].items()}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{split_name(split)} {value}" for split, value in values.items())
