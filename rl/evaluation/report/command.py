"""Command line of the report: `dph report` and `python -m rl.evaluation.report.write`."""

import argparse
import sys
from pathlib import Path

from rl.common.cli import user_errors_exit

CHECK_FAILED_EXIT_CODE = 1


def main(arguments: list[str] | None = None) -> int:
    """Write the report and return the exit code."""
    options = parser().parse_args(arguments)
    with user_errors_exit():
        from rl.evaluation.spec import read_spec

        spec = read_spec(options.spec)
        sys.stderr.write(f"Comparing {', '.join(spec.methods)}.\n")

        from rl.evaluation.analysis.claims import assert_styles
        from rl.evaluation.report.write import write_report

        report = write_report(spec, options.out)
    sys.stdout.write(f"{options.out / 'report.json'}\n{options.out / 'report.html'}\n")
    failures = assert_styles(report) if options.check else []
    for failure in failures:
        sys.stderr.write(f"Check failed: {failure}\n")
    return CHECK_FAILED_EXIT_CODE if failures else 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rl.evaluation.report.write",
        description="Report Pass@k, keep rate and styles of all methods, with intervals: report.json and report.html.",
    )
    parser.add_argument(
        "--spec", type=Path, required=True, help="JSON: methods, their sample files, texts (docs/evaluation.md)"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for report.json and report.html")
    parser.add_argument(
        "--check", action="store_true", help="exit code 1 unless grpo ended in one style and dph_js kept several"
    )
    return parser
