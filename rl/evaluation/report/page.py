"""report.html: one self-contained file, for a light or dark screen of any width."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rl.evaluation.analysis.checkpoints import Progress
from rl.evaluation.analysis.claims import NOT_SIGNIFICANT, Claim
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.figures import evaluation_figures, looks_of
from rl.evaluation.report.tables import claims_table, duration, settings_facts, tests_table, values_tables
from rl.evaluation.report.theme import COLOURS
from rl.evaluation.report.training_figures import training_figures
from rl.evaluation.spec import BASE

ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)


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
    looks = looks_of(spec)
    labels = {name: method.label for name, method in spec.methods.items()}
    training, more_training = training_figures(spec, logs)
    return ENVIRONMENT.get_template("page.html").render(
        spec=spec,
        colours=COLOURS,
        failed_gold=[
            (labels[name], split, samples.gold_failures, samples.correct.size)
            for name, splits in comparison.samples.items()
            for split, samples in splits.items()
            if samples.gold_failures
        ],
        values=[values_tables(comparison, split, looks) for split in spec.splits],
        claims=[
            (
                claims_table(split, [claim for claim in claims if claim.split == split], labels),
                tests_table([test for test in tests if test.split == split], labels),
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
    )


def caveats(comparison: Comparison, claims: list[Claim]) -> list[str]:
    """Limits of the evidence, one sentence or two each: those of every such report, then the specification's."""
    spec = comparison.spec
    prompts = comparison.samples[BASE][spec.splits[0]].prompts
    compared = [claim for claim in claims if claim.p_holm is not None]
    uncertain = sum(claim.verdict.endswith(NOT_SIGNIFICANT) for claim in compared)
    texts = [
        "One training run per method: the intervals cover the choice of prompts, not the training seed. How much "
        "another seed would move the values is not measured here.",
        "Holm’s correction covers the metrics of one pair of methods on one split, not several pairs and splits.",
        f"With {prompts} prompts per split, a difference of a few points may be chance"
        + (f": {uncertain} of {len(compared)} here are not significant." if uncertain else "."),
        "Several styles are not a higher Pass@k: a model can keep its styles and solve no more prompts.",
    ]
    if not any(name.startswith("dapo") for name in spec.methods):
        texts.append(
            "DAPO without a divergence term is not among the methods. Clip-higher and training on the hard prompts "
            "alone raise Pass@8 too, so a gain over GRPO may not be the divergence’s."
        )
    return texts + list(spec.caveats)
