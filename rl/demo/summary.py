"""What the demo says at its end: a table of the report's values, its comparisons, the checks, and what to do next."""

import os
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rl.demo.experiment import GROUPED_BY, SPLITS

if TYPE_CHECKING:
    from rl.demo.run import Demo

# Column: metric (summary.metric_of).
COLUMNS = {"greedy": "greedy", "Pass@1": "pass@1", "Pass@8": "pass@8", "Pass@32": "pass@32", "styles": "styles"}


def results_table(report: dict) -> str:
    """A block per split, for all of its questions and for each group of them that the report has.

    Args:
        report: the content of report.json.
    """
    labels = report["_labels"]
    width = 2 + max(map(len, labels.values()))
    blocks = []
    for split in SPLITS:
        for title, of_methods in _questions(report, split):
            lines = [title, " " * width + "".join(f"{name:14}" for name in COLUMNS).rstrip()]
            for method, summary in of_methods.items():
                cells = "".join(f"{_cell(summary, metric):14}" for metric in COLUMNS.values())
                lines.append(f"{labels[method]:{width}}{cells}".rstrip())
            blocks.append("\n".join(lines))
    about = "Per cent, or the number of styles, with 95 % intervals over questions:"
    return "\n\n".join([about, *blocks]) + "\n"


def _questions(report: dict, split: str) -> Iterator[tuple[str, dict[str, dict]]]:
    """(title, {method: summary}) of all questions of a split, then of those of each group."""
    of_split = {method: report[method][split] for method in report["_labels"]}
    base = of_split["base"]
    name = split.replace("_", " ").capitalize()
    yield f"{name}, all {base['prompts']} questions", of_split
    for value, summary in base.get("groups", {}).get(GROUPED_BY, {}).items():
        of_group = {method: found["groups"][GROUPED_BY][value] for method, found in of_split.items()}
        yield f"{name}, {summary['prompts']} {value} questions", of_group


def _cell(summary: dict, metric: str) -> str:
    """The value and its interval, such as 61.7 52-71."""
    from rl.evaluation.analysis.summary import in_display_unit, metric_of

    interval = metric_of(summary, metric)
    if interval is None:
        return "-"
    value, low, high = (in_display_unit(metric, bound)[0] for bound in interval)
    return f"{value:.1f} {low:.1f}-{high:.1f}" if metric == "styles" else f"{value:.1f} {low:.0f}-{high:.0f}"


def checks_passed(report: dict) -> str:
    """What claims.failed_checks has checked, if nothing failed."""
    labels = report["_labels"]
    styles = [claim for claim in report["_claims"] if claim["unit"] == "nats" and claim["method"] in ("grpo", "dph_js")]
    passed = [f"{labels[claim['method']]} {claim['predicate']}" for claim in styles]
    if "grpo" in report:
        passed.insert(0, f"{labels['grpo']} has a lower Pass@{report['base']['in_domain']['n']} than the base")
    return f"Checks passed: {', '.join(passed)}.\n"


def next_commands(demo: "Demo", dph: str) -> dict[str, str]:
    """{command: what for} of what comes after the demo.

    Args:
        dph: the program's path.
    """
    out = os.path.relpath(demo.out)
    samples, store = f"{out}/data/generate_data/0.jsonl", f"{out}/data/pef.pt"
    found = {f"{dph} inspect {shlex.quote(samples)} {shlex.quote(store)}": "read the base model's samples, and D_pef"}
    if more := [name for name in ("dapo_exp", "dph_f") if name not in demo.methods]:
        found[f"{dph} {demo.command([*demo.methods, *more])}"] = "train these too"
    return found | {f"{dph} study": "the paper's methods with three seeds"}
