"""What the demo says at its end: a table of the report's values, its comparisons, the checks, and what to do next."""

import os
import shlex
from typing import TYPE_CHECKING

from rl.demo.experiment import EVAL_SAMPLES, SPLITS

if TYPE_CHECKING:
    from rl.demo.run import Demo

COLUMNS = ("greedy", "pass@1", "pass@8", "pass@32", "styles")


def results_tables(report: dict) -> str:
    """A table per split, for all of its questions and for each group of them that the report has.

    Args:
        report: the content of report.json.
    """
    from rl.evaluation.table import as_text
    from rl.evaluation.tables import counted, of_groups, split_name, values_table

    tables = []
    for split in SPLITS:
        of_split = {method: report[method][split] for method in report["_labels"]}
        for words, found in {"": of_split, **of_groups(of_split)}.items():
            caption = counted(split_name(split), found, EVAL_SAMPLES, f"{words} " if words else "")
            tables.append(as_text(values_table(found, COLUMNS, report["_labels"], caption)))
    return "\n".join(tables)


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
