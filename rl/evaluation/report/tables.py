"""The tables of report.html."""

from html import escape

from rl.data.sample_file import SampleMetadata
from rl.evaluation.analysis.claims import NOT_MEASURED, NOT_SEEN, SEEN, Claim
from rl.evaluation.analysis.comparison import COMMON_SETTINGS, Comparison
from rl.evaluation.analysis.paired_test import PairedTest
from rl.evaluation.analysis.summary import metric_of
from rl.evaluation.report.theme import Colour
from rl.evaluation.spec import BASE
from rl.metrics.bootstrap import Interval
from rl.metrics.distinct_n import ORDERS
from rl.metrics.pass_at_k import k_values

EMPTY = "–"
COLUMN_NAMES = {
    "greedy": "Greedy",
    "keep_rate": "Keep rate",
    "lost": "Lost",
    "newly_solved": "Newly solved",
    "styles": "Styles",
    "style_entropy": "Style entropy",
    "distinct_correct": "Different correct",
    "distinct_results": "Different results",
    "response_tokens": "Tokens",
    **{f"distinct_{n}": f"Distinct-{n}" for n in ORDERS},
}
NOT_PERCENT = ("styles", "style_entropy", "distinct_correct", "distinct_results", "response_tokens")


def split_name(split: str) -> str:
    """in_domain -> In domain."""
    return split.replace("_", " ").capitalize()


def values_tables(comparison: Comparison, colours: dict[str, Colour]) -> str:
    """Per split, every method against every metric with its interval; the remaining k of Pass@k folded away."""
    return "\n".join(_values_of_split(comparison, split, colours) for split in comparison.spec.splits)


def _values_of_split(comparison: Comparison, split: str, colours: dict[str, Colour]) -> str:
    spec = comparison.spec
    base = comparison.samples[BASE][split]
    shown = [k for k in k_values(base.n) if k in (1, spec.solved_in, base.n)]
    columns = ["greedy", *(f"pass@{k}" for k in shown), "keep_rate", "lost", "newly_solved"]
    columns += ["styles", "style_entropy"] if base.style_names else []
    caption = f"{escape(split_name(split))} <span>{base.prompts} prompts, {base.n} samples a prompt</span>"
    main = _values_table(comparison, split, colours, columns, caption, truncated=True)
    every_k = _values_table(comparison, split, colours, [f"pass@{k}" for k in k_values(base.n)], "", truncated=False)
    answers = [f"maj@{base.n}", "distinct_correct", "distinct_results"]
    answers += [*(f"distinct_{n}" for n in ORDERS), "response_tokens"]
    different = _values_table(comparison, split, colours, answers, "", truncated=False)
    name = escape(split_name(split).lower())
    return (
        f"{main}<details><summary>Pass@k for every k, {name}</summary>{every_k}</details>"
        f"<details><summary>Majority, variety and length, {name}</summary>{different}</details>"
    )


def _values_table(
    comparison: Comparison, split: str, colours: dict[str, Colour], columns: list[str], caption: str, truncated: bool
) -> str:
    head = ["<th scope=col>Method</th>"]
    head += [f"<th scope=col>{COLUMN_NAMES.get(name, name.capitalize())}</th>" for name in columns]
    head += ["<th scope=col>Trun&shy;cated</th>"] if truncated else []
    rows = []
    for method in comparison.spec.methods.values():
        summary = comparison.summaries[method.name][split]
        swatch = f'<i class="swatch" style="color:var(--{colours[method.name].variable})"></i>'
        cells = [f"<th scope=row>{swatch}{escape(method.label)}</th>"]
        cells += [_value_cell(metric_of(summary, name), name not in NOT_PERCENT) for name in columns]
        cells += [f"<td>{100 * summary['truncated']:.1f}</td>"] if truncated else []
        rows.append(f"<tr>{''.join(cells)}</tr>")
    title = f"<caption>{caption}</caption>" if caption else ""
    body = "\n".join(rows)
    return (
        f'<div class="scroll" tabindex=0><table class="values">{title}<thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _value_cell(interval: Interval, percent: bool) -> str:
    if interval is None:
        return f"<td>{EMPTY}</td>"
    scale, digits = (100, 1) if percent else (1, 2)
    value, low, high = (f"{scale * v:.{digits}f}" for v in interval)
    return f"<td>{value}<small>{low}–{high}</small></td>"


def claims_table(split: str, claims: list[Claim], labels: dict[str, str]) -> str:
    """The claims about one split: a row a predicate, a column a method, in each cell the verdict and its reason."""
    methods = list(dict.fromkeys(claim.method for claim in claims))
    rows: dict[str, dict[str, Claim]] = {}
    for claim in claims:
        rows.setdefault(claim.predicate, {})[claim.method] = claim
    head = "".join(f"<th scope=col>{escape(labels[name])}</th>" for name in methods)
    body = "\n".join(_claims_row(predicate, row, methods, labels) for predicate, row in rows.items())
    return (
        f'<div class="scroll" tabindex=0><table class="claims"><caption>{escape(split_name(split))}</caption>'
        f"<thead><tr><th scope=col>The method …</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def tests_table(split: str, tests: list[PairedTest], labels: dict[str, str]) -> str:
    """The paired tests on one split, folded away; nothing when there are none."""
    if not tests:
        return ""
    head = "".join(f"<th scope=col>{name}</th>" for name in ("Metric", "Difference", "p", "p, Holm"))
    rows = []
    for test in tests:
        pair = f"{escape(labels[test.first])} − {escape(labels[test.second])}"
        percent = test.metric not in NOT_PERCENT
        value, low, high = (_signed(100 * v) if percent else f"{v:+.2f}" for v in test.difference)
        cells = [COLUMN_NAMES.get(test.metric, test.metric.capitalize()), f"{value}<small>{low} to {high}</small>"]
        cells += [f"{test.p:.4f}", f"{test.p_holm:.4f}"]
        rows.append(f"<tr><th scope=row>{pair}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    body = "\n".join(rows)
    return (
        f"<details><summary>Paired tests, {escape(split_name(split).lower())}</summary>"
        '<div class="scroll" tabindex=0><table class="values"><caption>Sign-flip permutation tests over prompts'
        " <span>Holm’s correction over the metrics of two methods</span></caption>"
        f"<thead><tr><th scope=col>Methods</th>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _claims_row(predicate: str, row: dict[str, Claim], methods: list[str], labels: dict[str, str]) -> str:
    measure = next(iter(row.values())).measure
    cells = "".join(_claim_cell(row[name], labels[name]) if name in row else "<td></td>" for name in methods)
    return f"<tr><th scope=row>{escape(predicate)}<small>{escape(measure)}</small></th>{cells}</tr>"


def _claim_cell(claim: Claim, label: str) -> str:
    """The label is for a narrow screen, where the cells stand below each other without a head."""
    words = escape(claim.verdict).replace(", but ", ", but<br>")
    verdict = f'<b class="{_verdict_class(claim.verdict)}">{words}</b>'
    return f'<td data-method="{escape(label)}">{verdict}<small>{_claim_value(claim)}</small></td>'


def _claim_value(claim: Claim) -> str:
    if claim.value is None:
        return EMPTY
    value, low, high = (f"{v:.2f}" if claim.unit == "nats" else _signed(100 * v) for v in claim.value)
    return f"{value} [{low}, {high}]"


def _signed(value: float) -> str:
    """With its sign, even where it rounds to 0: whether an interval reaches 0 stays legible."""
    return f"{value:+.1f}".replace("-", "−") if value else "0.0"


def _verdict_class(verdict: str) -> str:
    return {SEEN: "seen", NOT_SEEN: "unseen", NOT_MEASURED: "unseen"}.get(verdict, "partly")


def settings_facts(comparison: Comparison) -> dict[str, object]:
    """The specification's settings, then how the samples were drawn."""
    drawn = {split: samples.metadata for split, samples in comparison.samples[BASE].items()}
    seeds = {
        comparison.spec.methods[name].label: next(iter(splits.values())).metadata.seed
        for name, splits in comparison.samples.items()
    }
    sampling = {f"sampling: {name}": _of_all_splits(drawn, name) for name in COMMON_SETTINGS}
    sampling["sampling: seed"] = ", ".join(f"{label} {seed}" for label, seed in seeds.items())
    return comparison.spec.settings | sampling


def _of_all_splits(drawn: dict[str, SampleMetadata], setting: str) -> object:
    """The setting where all splits have the same, else that of each."""
    values = {split: getattr(metadata, setting) for split, metadata in drawn.items()}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{split_name(split)} {value}" for split, value in values.items())


def facts_table(caption: str, facts: dict[str, object]) -> str:
    """A table of names and values; nothing when there are none."""
    if not facts:
        return ""
    rows = "\n".join(
        f"<tr><th scope=row>{escape(name)}</th><td>{escape(str(v))}</td></tr>" for name, v in facts.items()
    )
    return f'<table class="facts"><caption>{escape(caption)}</caption><tbody>{rows}</tbody></table>'


def seconds_table(seconds: dict[str, float]) -> str:
    """The time of every stage and their sum; nothing when no time is given."""
    if not seconds:
        return ""
    rows = "\n".join(
        f"<tr><th scope=row>{escape(stage)}</th><td>{duration(value)}</td></tr>" for stage, value in seconds.items()
    )
    total = f"<tfoot><tr><th scope=row>all stages</th><td>{duration(sum(seconds.values()))}</td></tr></tfoot>"
    return f'<table class="facts"><caption>Time of each stage</caption><tbody>{rows}</tbody>{total}</table>'


def duration(seconds: float) -> str:
    """12.3 -> "12.3 s", 75 -> "1 min 15 s"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
