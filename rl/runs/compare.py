"""The program `dph compare`: one report of several finished runs, from the samples that they have."""

import argparse
import json
import sys
from pathlib import Path


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Report several finished runs side by side (report.html, report.json), from their evaluations\n"
        "(RUN/evaluation, or an output folder of dph evaluate), or else from their validations\n"
        "(trainer.validation_data_dir, with step 0), and their training curves. Nothing is sampled.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder, or one of dph evaluate")
    parser.add_argument("--out", type=Path, required=True, help="folder for report.html, report.json and spec.json")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """
    Returns:
        The exit code.

    Raises:
        UserError: the runs cannot be compared; no report is written then.
    """
    options = parser().parse_args(arguments)
    from rl.common import atomic_write
    from rl.evaluation.report.write import write_report
    from rl.evaluation.spec import read_spec
    from rl.runs.comparable import specification

    spec = specification(options.runs, options.out)
    path = options.out / "spec.json"
    options.out.mkdir(parents=True, exist_ok=True)
    atomic_write.write_text(path, json.dumps(spec, indent=2) + "\n")
    write_report(read_spec(path), options.out)
    sys.stdout.write(f"{options.out / 'report.json'}\n{options.out / 'report.html'}\n")
    return 0
