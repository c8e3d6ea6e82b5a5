"""Write report.json and report.html; command.py has the command line."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common import atomic_write

if TYPE_CHECKING:
    from rl.evaluation.spec import ReportSpec


def write_report(spec: "ReportSpec", out: Path) -> dict:
    """Measure all methods, write out/report.json and out/report.html, and return the content of report.json.

    report.json = {method: {split: summary}} (see summary.summarise), beside "_definitions" {term: meaning},
    "_claims" [claims.Claim], "_tests" [paired_test.PairedTest], "_labels" {method: label} and, if a method has
    checkpoints, "_progress" (checkpoints.Progress).

    Raises:
        UserError: the files cannot be compared; nothing is written then.
    """
    from rl.evaluation.analysis.checkpoints import read_progress
    from rl.evaluation.analysis.claims import claims
    from rl.evaluation.analysis.comparison import compare
    from rl.evaluation.analysis.paired_test import paired_tests
    from rl.evaluation.analysis.summary import definitions
    from rl.evaluation.analysis.training_log import read_training_log
    from rl.evaluation.report.page import render_page
    from rl.evaluation.spec import BASE

    comparison = compare(spec)
    of_base = comparison.samples[BASE].values()
    n = " or ".join(map(str, sorted({samples.n for samples in of_base})))
    styled = any(samples.style_names for samples in of_base)
    meanings = definitions(n, spec.solved_in, tuple(spec.styles) if styled else (), spec.styles_by)
    tests = paired_tests(comparison)
    judged = claims(comparison, tests)
    logs = {
        name: read_training_log(method.training_log) for name, method in spec.methods.items() if method.training_log
    }
    progress = read_progress(comparison)
    page = render_page(comparison, judged, tests, meanings, logs, progress)
    report = comparison.summaries | {
        "_definitions": meanings,
        "_claims": [dataclasses.asdict(claim) for claim in judged],
        "_tests": [dataclasses.asdict(test) for test in tests],
        "_labels": {name: method.label for name, method in spec.methods.items()},
    }
    report |= {"_progress": progress} if progress else {}
    text = json.dumps(report, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    out.mkdir(parents=True, exist_ok=True)
    atomic_write.write_text(out / "report.json", text)
    atomic_write.write_text(out / "report.html", page)
    return report


if __name__ == "__main__":
    from rl.evaluation.report.command import main

    sys.exit(main())
