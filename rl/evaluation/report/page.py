"""report.html: one file with everything in it, for a light or dark screen of any width."""

from html import escape
from pathlib import Path
from string import Template

from rl.evaluation.analysis.checkpoints import Progress
from rl.evaluation.analysis.claims import NOT_SEEN, SEEN, Claim
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.analysis.training_log import TrainingLog
from rl.evaluation.report.figures import evaluation_figures
from rl.evaluation.report.tables import (
    claims_table,
    facts_table,
    seconds_table,
    settings_facts,
    tests_table,
    values_tables,
)
from rl.evaluation.report.theme import css_variables, method_colours
from rl.evaluation.report.training_figures import training_figures
from rl.evaluation.spec import BASE

_HERE = Path(__file__).parent


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
        claims: what claims.claims found.
        tests: what paired_test.paired_tests found.
        definitions: {term: meaning}.
        logs: {method: its training log}; without one the page has no training section.
        progress: what progress.read_progress found.
    """
    spec = comparison.spec
    light, dark = css_variables()
    colours = method_colours(list(spec.methods))
    labels = {name: method.label for name, method in spec.methods.items()}
    training = training_figures(spec, logs)
    return Template((_HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(spec.title),
        summary=escape(spec.summary),
        light=light,
        dark=dark,
        css=(_HERE / "page.css").read_text(encoding="utf-8"),
        notes=_notes(comparison),
        tables=values_tables(comparison, colours),
        claims="\n".join(
            claims_table(split, [c for c in claims if c.split == split], labels)
            + tests_table(split, [t for t in tests if t.split == split], labels)
            for split in spec.splits
        ),
        caveats="\n".join(f"<li>{escape(text)}</li>" for text in caveats(comparison, claims)),
        plots=evaluation_figures(comparison, progress),
        training=training,
        training_link='<a href="#training">Training</a>' if training else "",
        definitions="\n".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in definitions.items()),
        settings=facts_table("Settings", settings_facts(comparison)) + seconds_table(spec.seconds),
    )


def caveats(comparison: Comparison, claims: list[Claim]) -> list[str]:
    """What the numbers leave open, one sentence or two each: those of every such report, then the specification's."""
    spec = comparison.spec
    prompts = comparison.samples[BASE][spec.splits[0]].prompts
    uncertain = sum(claim.verdict not in (SEEN, NOT_SEEN) for claim in claims)
    texts = [
        "One training run a method: the intervals cover the choice of prompts, not the seed of training. How much "
        "another seed would move the values is not measured here.",
        f"{len(claims)} claims are judged, each at 95 %, with no correction: about one difference in forty is seen by "
        "chance where there is none. The paired tests below them are corrected.",
        f"With {prompts} prompts a split, a difference of a few points often stays within its interval"
        + (f", as for {uncertain} of the claims here." if uncertain else "."),
        "Several styles are not a higher Pass@k: a model can keep its styles and solve no more prompts.",
    ]
    if not any(name.startswith("dapo") for name in spec.methods):
        texts.append(
            "DAPO without a divergence term is not among the methods. Clip-higher and training on the hard prompts "
            "alone raise Pass@8 too, so a gain over GRPO may not be the divergence’s."
        )
    return texts + list(spec.caveats)


def _notes(comparison: Comparison) -> str:
    """A warning for every method whose reference queries failed: its shares are too low by that."""
    lines = []
    for name, splits in comparison.samples.items():
        for split, samples in splits.items():
            if samples.gold_failures:
                lines.append(
                    f'<p class="note">{escape(comparison.spec.methods[name].label)}, {escape(split)}: for '
                    f"{samples.gold_failures} of {samples.correct.size} samples the reference query itself failed; "
                    "they count as wrong.</p>"
                )
    return "\n".join(lines)
