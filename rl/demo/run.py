"""Run the whole pipeline on a tiny model, on two cores.

    python -m rl.demo.run --out outputs/demo --methods grpo,dph_js

Makes the task and the base model, pre-samples, splits, stores reference log-probs, trains every method with verl, and
evaluates them: OUT/report.json and OUT/report.html. It calls the launch scripts that a cluster calls (scripts/llama),
with smaller settings. Re-run the same command to resume: finished stages are skipped.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.common.signals import exit_on_sigterm
from rl.demo.experiment import METHODS, SPLITS, method_names
from rl.demo.pipeline import Demo


def main(arguments: list[str] | None = None) -> int:
    """The command line; exit code 1 if the style entropies are not as expected, 2 after a user error."""
    options = parser().parse_args(arguments)
    exit_on_sigterm()
    with user_errors_exit():
        methods = method_names(options.methods)
        if options.steps < 1:
            raise UserError(f"--steps is {options.steps}; it must be at least 1.")
        started = time.monotonic()
        demo = Demo(options.out.resolve(), methods, options.steps, options.seed)
        failures = demo.run()
    _print_summary(demo, time.monotonic() - started)
    for failure in failures:
        sys.stderr.write(f"Check failed: {failure}\n")
    return 1 if failures else 0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.run", description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--out", type=Path, default=Path("outputs/demo"), help="output folder (default: %(default)s)")
    add("--methods", default="grpo,dph_js", help=f"comma-separated, of {', '.join(METHODS)} (default: %(default)s)")
    add("--steps", type=int, default=80, help="training steps of each method (default: %(default)s)")
    add("--seed", type=int, default=1, help="of sampling, data order and training (default: %(default)s)")
    return parser


def _print_summary(demo: Demo, seconds: float) -> None:
    from rl.evaluation.analysis.claims import comparisons_text
    from rl.evaluation.analysis.summary import metric_of

    report = json.loads((demo.out / "report.json").read_text())
    columns = ("greedy", "pass@1", "pass@8", "pass@32", "keep_rate", "styles", "style_entropy")
    lines = []
    for split in SPLITS:
        lines.append(
            f"{split.replace('_', ' '):<18}" + "".join(f"{column.replace('_', ' '):>15}" for column in columns)
        )
        for method in report["_labels"]:
            values = [metric_of(report[method][split], column) for column in columns]
            lines.append(f"{method:<18}" + "".join(f"{value[0]:>15.3f}" if value else f"{'-':>15}" for value in values))
        lines.append("")
    memory = f", at most {demo.pipeline.peak_memory / 1e9:.1f} GB of memory" if demo.pipeline.peak_memory else ""
    sys.stdout.write(
        "\n".join([*lines, comparisons_text(report)]) + f"\n{seconds / 60:.1f} minutes{memory}. Intervals and plots:\n"
        f"{os.path.relpath(demo.out / 'report.html')}\n{os.path.relpath(demo.out / 'report.json')}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
