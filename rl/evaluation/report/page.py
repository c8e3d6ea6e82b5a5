"""report.html: one self-contained file, for a light or dark screen of any width."""

from dataclasses import replace

from rl.common.duration import duration
from rl.evaluation.analysis.checkpoints import Progress
from rl.evaluation.analysis.claims import INCONCLUSIVE, Claim
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.answer_grid import AnswerGrid
from rl.evaluation.report.environment import ENVIRONMENT
from rl.evaluation.report.figures import evaluation_figures, looks_of, style_figures
from rl.evaluation.report.headline import headline, style_sentence
from rl.evaluation.report.provenance import provenance
from rl.evaluation.report.question_browser import browser_data
from rl.evaluation.report.tables import (
    claims_table,
    settings_facts,
    split_name,
    tests_table,
    values_tables,
)
from rl.evaluation.report.theme import COLOURS
from rl.evaluation.report.training_figures import training_figures
from rl.evaluation.spec import BASE, BASE_AGAIN

LINKS = {
    "The paper": "https://arxiv.org/abs/2509.07430",
    "verl": "https://github.com/volcengine/verl",
}


def render_page(
    comparison: Comparison,
    claims: list[Claim],
    tests: list[PairedTest],
    definitions: dict[str, str],
    logs: dict[str, TrainingLog],
    progress: Progress,
) -> str:
    """The whole page.

    Args:
        comparison: the measured methods.
        claims: the judged claims.
        tests: the paired tests.
        definitions: {term: meaning}.
        logs: {method: its training log}; without one the page has no training section.
        progress: metrics of checkpoints.
    """
    spec = comparison.spec
    labels = {name: method.label for name, method in spec.methods.items()}
    looks = looks_of(spec)
    labelled = {name: replace(look, label=labels[name]) for name, look in looks.items()}
    shown = {name: look.label for name, look in looks.items() if name != BASE_AGAIN}
    grids = {split_name(split): AnswerGrid.of_split(comparison, split) for split in spec.splits}
    training, more_training = training_figures(spec, logs)
    return ENVIRONMENT.get_template("page.html").render(
        spec=spec,
        colours=COLOURS,
        top=headline(comparison, claims, tests, looks),
        split=split_name(spec.splits[0]),
        prompts=comparison.samples[BASE][spec.splits[0]].prompts,
        failed_gold=[
            (labels[name], split, samples.gold_failures, samples.correct.size)
            for name, splits in comparison.samples.items()
            for split, samples in splits.items()
            if samples.gold_failures
        ],
        grids={
            name: (grid, [grid.panel(comparison, of, shown[of], looks[of].colour.css) for of in shown])
            for name, grid in grids.items()
        },
        browser=browser_data(comparison, grids, shown),
        styles=style_figures(comparison),
        about_styles=style_sentence(comparison, looks),
        values={
            title: table for split in spec.splits for title, table in values_tables(comparison, split, labelled).items()
        },
        claims=[
            (
                claims_table(split, [claim for claim in claims if claim.split == split], spec.short_names),
                tests_table([test for test in tests if test.split == split], spec.short_names),
            )
            for split in spec.splits
        ],
        caveats=caveats(comparison, claims),
        groups=evaluation_figures(comparison, progress),
        training=training,
        more_training=more_training,
        definitions=definitions,
        settings=settings_facts(comparison),
        seconds={stage: duration(seconds) for stage, seconds in spec.seconds.items()},
        total=duration(sum(spec.seconds.values())),
        provenance=provenance(comparison),
        links=LINKS,
    )


def caveats(comparison: Comparison, claims: list[Claim]) -> list[str]:
    """Limits of the evidence, one sentence or two each: those of every such report, then the specification's."""
    spec = comparison.spec
    prompts = comparison.samples[BASE][spec.splits[0]].prompts
    compared = [claim for claim in claims if claim.p_holm is not None]
    uncertain = sum(claim.verdict == INCONCLUSIVE for claim in compared)
    texts = [
        "One training run per method: the intervals cover the choice of prompts, not the training seed. How much "
        "another seed would move the values is not measured here.",
        "Holm’s correction covers the metrics of one pair of methods on one split, not several pairs and splits.",
        f"With {prompts} prompts per split, a difference of a few points may be chance"
        + (f": {uncertain} of {len(compared)} here are inconclusive." if uncertain else "."),
        "Several styles are not a higher Pass@k: a model can keep its styles and solve no more prompts.",
    ]
    if not any(name.startswith("dapo") for name in spec.methods):
        texts.append(
            "DAPO without a divergence term is not among the methods. Clip-higher and training on the hard prompts "
            "alone raise Pass@8 too, so a gain over GRPO may not be the divergence’s."
        )
    return texts + list(spec.caveats)
