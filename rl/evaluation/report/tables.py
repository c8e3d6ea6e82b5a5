"""The content of report.html's tables, as texts; page.html lays them out."""

from collections.abc import Sequence
from dataclasses import dataclass

from rl.evaluation.analysis.claims import INCONCLUSIVE, NOT_MEASURED, NOT_SUPPORTED, SUPPORTED, Claim
from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.analysis.questions import PLAIN
from rl.evaluation.analysis.summary import in_display_unit, metric_of
from rl.evaluation.report.theme import Look
from rl.evaluation.spec import BASE
from rl.metrics.distinct_n import ORDERS
from rl.metrics.pass_at_k import k_values

EMPTY = "–"
VERDICT_CLASSES = {SUPPORTED: "yes", NOT_SUPPORTED: "no", INCONCLUSIVE: "open", NOT_MEASURED: "none"}
# Of metrics whose name in report.json is not the heading.
COLUMN_NAMES = {"response_tokens": "Tokens", "truncated": "Trun\N{SOFT HYPHEN}cated"}
COLUMN_NAMES |= {f"distinct_{n}": f"Distinct-{n}" for n in ORDERS}


@dataclass(frozen=True)
class Cell:
    value: str
    note: str = ""  # below the value: its limits, or the reason of a verdict
    kind: str = ""  # of a verdict: its CSS class


@dataclass(frozen=True)
class Row:
    label: str
    cells: Sequence[Cell | None]
    colour: str = ""  # CSS
    note: str = ""


@dataclass(frozen=True)
class Table:
    columns: list[str]
    rows: list[Row]
    caption: str = ""
    note: str = ""


def split_name(split: str) -> str:
    """in_domain -> In domain."""
    return split.replace("_", " ").capitalize()


def _column_name(metric: str) -> str:
    return COLUMN_NAMES.get(metric, metric.replace("_", " ").capitalize())


def group_titles(summary: dict) -> dict[tuple[str, str], str]:
    """{(key, value): words for these questions} of a summary's groups."""
    groups = summary["groups"]
    return {
        (key, value): f"not {key}" if value == PLAIN and len(groups) > 1 else value
        for key, values in groups.items()
        for value in values
    }


def values_tables(comparison: Comparison, split: str, looks: dict[str, Look]) -> dict[str, Table]:
    """{title: table} of every method against every metric with its interval; the first is the main one."""
    spec = comparison.spec
    base = comparison.samples[BASE][split]
    shown = [k for k in k_values(base.n) if k in (1, spec.solved_in, base.n)]
    main = ["greedy", *(f"pass@{k}" for k in shown), "keep_rate", "lost", "newly_solved"]
    main += ["styles", "style_entropy"] if base.style_names else []
    responses = [f"maj@{base.n}", "distinct_correct", "distinct_results"]
    responses += [*(f"distinct_{n}" for n in ORDERS), "response_tokens"]
    name = split_name(split)
    columns = {
        name: [*main, "truncated"],
        f"Pass@k for every k, {name.lower()}": [f"pass@{k}" for k in k_values(base.n)],
        f"Majority, variety and length, {name.lower()}": responses,
    }
    summaries = {method: comparison.summaries[method][split] for method in looks}

    def table(metrics: list[str], summaries: dict[str, dict], note: str = "") -> Table:
        rows = [
            Row(look.label, [_value_cell(summaries[method], metric) for metric in metrics], look.colour.css)
            for method, look in looks.items()
        ]
        return Table(["Method", *map(_column_name, metrics)], rows, name if note else "", note)

    found = {title: table(metrics, summaries) for title, metrics in columns.items()}
    found[name] = table(columns[name], summaries, f"{base.prompts} questions, {base.n} samples of each")
    for (key, value), title in group_titles(summaries[BASE]).items():
        of_group = {method: summary["groups"][key][value] for method, summary in summaries.items()}
        found[f"{name}, {title}"] = table(main, of_group, f"{of_group[BASE]['prompts']} {title} questions")
    return found


def _value_cell(summary: dict, metric: str) -> Cell:
    if metric == "truncated":
        return Cell(f"{100 * summary[metric]:.1f}")
    interval = metric_of(summary, metric)
    if interval is None:
        return Cell(EMPTY)
    value, low, high = (f"{v:.{digits}f}" for v, digits in (in_display_unit(metric, v) for v in interval))
    return Cell(value, f"{low}–{high}")


def claims_table(split: str, claims: list[Claim], labels: dict[str, str]) -> Table:
    """A row per predicate, a column per method, in each cell the verdict and its reason."""
    methods = list(dict.fromkeys(claim.method for claim in claims))
    rows: dict[str, dict[str, Claim]] = {}
    for claim in claims:
        rows.setdefault(claim.predicate, {})[claim.method] = claim
    return Table(
        ["Claim", *(labels[name] for name in methods)],
        [
            Row(
                predicate,
                [_claim_cell(row.get(name)) for name in methods],
                # What is measured, where the predicate does not say it.
                note=next((claim.measure for claim in row.values() if claim.unit == "nats"), ""),
            )
            for predicate, row in rows.items()
        ],
        split_name(split),
    )


def _claim_cell(claim: Claim | None) -> Cell | None:
    if claim is None:
        return None
    kind = VERDICT_CLASSES[claim.verdict]
    if claim.value is None:
        return Cell(claim.verdict, EMPTY, kind)
    value, low, high = (f"{v:.2f}" if claim.unit == "nats" else _signed(100 * v, 1) for v in claim.value)
    p = "" if claim.p_holm is None else f", p\N{NO-BREAK SPACE}{claim.p_holm:.3f}"
    return Cell(claim.verdict, f"{value} [{low}, {high}]{p}", kind)


def tests_table(tests: list[PairedTest], labels: dict[str, str]) -> Table:
    """The paired tests on one split."""
    rows = []
    for test in tests:
        value, low, high = (_signed(*in_display_unit(test.metric, v)) for v in test.difference)
        cells = [Cell(_column_name(test.metric)), Cell(value, f"{low} to {high}")]
        cells += [Cell(f"{test.p:.4f}"), Cell(f"{test.p_holm:.4f}")]
        rows.append(Row(f"{labels[test.first]} − {labels[test.second]}", cells))
    columns = ["Methods", "Metric", "Difference", "p", "p, Holm"]
    note = "Holm’s correction over the metrics of a pair of methods"
    return Table(columns, rows, "Sign-flip permutation tests over prompts", note)


def _signed(value: float, digits: int) -> str:
    """With its sign, even if it rounds to 0: whether an interval reaches 0 stays legible."""
    return f"{value:+.{digits}f}".replace("-", "−") if value else f"{0:.{digits}f}"
