"""The program `dph watch`: follow a training run in the terminal by the metrics that its file logger writes."""

import argparse
import time
from pathlib import Path

LOOK_SECONDS = 2.0


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Follow a training run: reward, Pass@k, KL on D_pef, style entropy and retention as sparklines,\n"
        "time left, and alerts. It reads RUN/metrics/*.jsonl and changes nothing; Ctrl-C ends it, not the run.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="its folder, $OUTPUT_DIR/NAME of the launch scripts")
    parser.add_argument("--once", action="store_true", help="print one frame and exit, as without a terminal")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """
    Returns:
        The exit code, 0 also for a run that has not begun or has ended.

    Raises:
        UserError: there is no such run, or it logs no metrics.
    """
    options = parser().parse_args(arguments)
    from rl.runs.frame import frame
    from rl.runs.run_folder import read_run

    run = read_run(options.run)

    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    ascii_only = console.options.ascii_only
    if options.once or not console.is_terminal or run.has_ended:
        console.print(frame(run, ascii_only=ascii_only), soft_wrap=True)
        return 0
    try:
        with Live(frame(run, ascii_only=ascii_only), console=console, auto_refresh=False) as live:
            while not run.has_ended:
                time.sleep(LOOK_SECONDS)
                run = read_run(options.run)
                live.update(frame(run, ascii_only=ascii_only), refresh=True)
    except KeyboardInterrupt:
        return 0
    return 0
