"""The program `dph report`: write a report and its pictures (python -m rl.evaluation.report.write)."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rl.common import atomic_write
from rl.common.cli import output_folder, user_errors_exit
from rl.common.errors import UserError

if TYPE_CHECKING:
    from rl.evaluation.spec import ReportSpec

REPORT, PAGE = "report.json", "report.html"


def write_report(spec: "ReportSpec", out: Path, address: str = "") -> dict:
    """Measure all methods, write out/report.{json,html}, out/answers.svg, out/preview.png and, for two methods or more,
    out/pareto.svg (pareto_figure.py), and return the content of report.json.

    report.json is {method: {split: summary}} (prompt_metrics.summarise) with further keys: "_definitions" {term: text},
    "_claims" [claims.Claim], "_tests" [paired_test.PairedTest], "_labels" {method: label} and, if a method has
    checkpoints, "_progress" (comparison.Progress). A summary has "groups": {key of extra_info: {value: summary of the
    group (prompt_metrics.summarise_group)}}.

    Args:
        address: where `out` will be published; the page then names preview.png as the picture of a link to it.

    Raises:
        UserError: the files cannot be compared; nothing is written then.
    """
    from rl.evaluation.analysis.claims import claims
    from rl.evaluation.analysis.comparison import compare, read_progress
    from rl.evaluation.analysis.findings import Findings
    from rl.evaluation.analysis.paired_test import paired_tests
    from rl.evaluation.analysis.trade_off import trade_offs
    from rl.evaluation.analysis.training_log import read_training_log
    from rl.evaluation.measures import definitions
    from rl.evaluation.report.answer_grid import answer_figure
    from rl.evaluation.report.headline import Headline
    from rl.evaluation.report.page import render_page
    from rl.evaluation.report.pareto_figure import pareto_files, write_with_pictures
    from rl.evaluation.report.preview import FILE, preview_image
    from rl.evaluation.report.theme import method_looks
    from rl.evaluation.spec import BASE
    from rl.metrics.styles import BY_PREFIX

    comparison = compare(spec)
    spec = comparison.spec
    of_base = comparison.samples[BASE].values()
    n = " or ".join(map(str, sorted({samples.n for samples in of_base})))
    styled = any(samples.style_names for samples in of_base)
    meanings = definitions(n, spec.solved_in, tuple(spec.styles) if styled else (), spec.styles_by or BY_PREFIX)
    tests = paired_tests(comparison)
    judged = claims(comparison, tests)
    logs = {
        name: read_training_log(method.training_log, method.last_step)
        for name, method in spec.methods.items()
        if method.training_log
    }
    report = comparison.summaries | {
        "_definitions": meanings,
        "_claims": [dataclasses.asdict(claim) for claim in judged],
        "_tests": [dataclasses.asdict(test) for test in tests],
        "_labels": {name: method.label for name, method in spec.methods.items()},
    }
    report |= {"_progress": progress} if (progress := read_progress(comparison)) else {}
    findings, looks = Findings(comparison, tests), method_looks(spec.short_names)
    picture = f"{address.removesuffix('/')}/{FILE}" if address else ""
    files = {
        PAGE: render_page(comparison, judged, tests, report, logs, picture),
        "answers.svg": answer_figure(comparison),
        REPORT: json.dumps(report, indent=1, allow_nan=False, ensure_ascii=False) + "\n",
    }
    write_with_pictures(out, files | pareto_files(trade_offs(comparison, tests), findings.leading, looks))
    atomic_write.write_bytes(out / FILE, preview_image(comparison, Headline(findings, looks).title()))
    return report


def main(arguments: list[str] | None = None) -> int:
    """Write the report and return the exit code."""
    options = parser().parse_args(arguments)
    with user_errors_exit():
        from rl.evaluation.spec import read_spec

        if options.address and not options.address.startswith("https://"):
            raise UserError(f"--address is {options.address}: give the whole address, which begins with https://.")
        spec = read_spec(options.spec)
        sys.stderr.write(f"Comparing {', '.join(spec.methods)}.\n")
        write_report(spec, options.out, options.address)
    sys.stdout.write(f"{options.out / REPORT}\n{options.out / PAGE}\n")
    return 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rl.evaluation.report.write",
        description="Report Pass@k, keep rate and styles of all methods, with intervals: report.json and report.html.",
    )
    parser.add_argument(
        "--spec",
        type=Path,
        required=True,
        help="JSON: methods, their sample files, texts (docs/reference/evaluation.md)",
    )
    parser.add_argument("--out", type=output_folder, required=True, help="folder for report.json and report.html")
    parser.add_argument(
        "--address",
        default="",
        help="https address at which the folder will be published; a link to the report then shows preview.png",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
