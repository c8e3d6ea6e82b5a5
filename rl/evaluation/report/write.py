"""The program `dph report`: write a report and its pictures (python -m rl.evaluation.report.write)."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common.cli import output_folder, user_errors_exit

if TYPE_CHECKING:
    from rl.evaluation.spec import ReportSpec

REPORT, PAGE = "report.json", "report.html"


def write_report(spec: "ReportSpec", out: Path) -> dict:
    """Measure all methods, write out/report.{json,html}, out/answers.svg, its narrow form and, for two methods or more,
    out/pareto.svg (pareto_figure.py), and return the content of report.json.

    report.json is {method: {split: summary}} (prompt_metrics.summarise) with further keys: "_definitions" {term: text},
    "_tests" [paired_test.PairedTest with its verdict], "_labels" {method: label}, "_solved_in", "_answers"
    (answer_grid.answers_content) and, if a method has checkpoints, "_progress" (comparison.Progress). A summary has
    "groups": {key of extra_info: {value: summary of the group (prompt_metrics.summarise_group)}}.

    Raises:
        UserError: the files cannot be compared; nothing is written then.
    """
    from rl.evaluation.analysis.comparison import compare, read_progress
    from rl.evaluation.analysis.paired_test import paired_tests
    from rl.evaluation.analysis.trade_off import trade_offs
    from rl.evaluation.analysis.training_log import read_training_log
    from rl.evaluation.measures import definitions
    from rl.evaluation.report.answer_grid import answer_files, answers_content
    from rl.evaluation.report.page import render_page
    from rl.evaluation.report.pareto_figure import pareto_files, write_with_pictures
    from rl.evaluation.spec import BASE
    from rl.metrics.styles import BY_PREFIX

    comparison = compare(spec)
    spec = comparison.spec
    of_base = comparison.samples[BASE].values()
    n = " or ".join(map(str, sorted({samples.n for samples in of_base})))
    styled = any(samples.style_names for samples in of_base)
    meanings = definitions(n, spec.solved_in, tuple(spec.styles) if styled else (), spec.styles_by or BY_PREFIX)
    tests = paired_tests(comparison)
    logs = {
        name: read_training_log(method.training_log, method.last_step)
        for name, method in spec.methods.items()
        if method.training_log
    }
    report = comparison.summaries | {
        "_definitions": meanings,
        "_tests": [test.as_json() for test in tests],
        "_labels": spec.labels,
        "_solved_in": spec.solved_in,
        "_answers": answers_content(comparison),
    }
    report |= {"_progress": progress} if (progress := read_progress(comparison)) else {}
    files = {
        PAGE: render_page(comparison, tests, report, logs),
        REPORT: json.dumps(report, indent=1, allow_nan=False, ensure_ascii=False) + "\n",
    }
    files |= answer_files(report["_answers"]) | pareto_files(trade_offs(comparison))
    write_with_pictures(out, files)
    return report


def main(arguments: list[str] | None = None) -> int:
    """Write the report and return the exit code."""
    options = parser().parse_args(arguments)
    with user_errors_exit():
        from rl.evaluation.spec import read_spec

        spec = read_spec(options.spec)
        sys.stderr.write(f"Comparing {', '.join(spec.methods)}.\n")
        write_report(spec, options.out)
    sys.stdout.write(f"{options.out / REPORT}\n{options.out / PAGE}\n")
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rl.evaluation.report.write",
        description="Report Pass@k, keep rate and styles of all methods, with intervals: report.json and report.html.",
    )
    spec_help = "JSON: methods, their sample files, texts (docs/reference/evaluation.md)"
    parser.add_argument("--spec", type=Path, required=True, help=spec_help)
    parser.add_argument("--out", type=output_folder, required=True, help="folder for report.json and report.html")
    return parser


if __name__ == "__main__":
    sys.exit(main())
