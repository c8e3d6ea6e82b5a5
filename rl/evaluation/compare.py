"""The program `dph compare`: report finished runs side by side, or methods over training seeds, without sampling."""

import argparse
import re
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from rl.common.cli import output_folder
from rl.common.errors import UserError
from rl.common.text import shortest_names
from rl.evaluation.report.write import PAGE, REPORT, write_report


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Report several finished runs side by side (report.html, report.json, pareto.svg), with their\n"
        "training curves. The samples come from their evaluations (RUN/evaluation, or an output folder of dph\n"
        "evaluate). Nothing is sampled.\n"
        "With --seeds, compare methods with the first one over training seeds: a table of means, intervals and paired\n"
        "tests (seeds.md, seeds.json, pareto.svg), and a report of each seed.",
    )
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="a run's folder, or one of dph evaluate")
    parser.add_argument(
        "--seeds",
        nargs="+",
        metavar="METHOD=RUN,RUN",
        help="instead of RUN: a method's runs, one per seed, in the same order of seeds for every method",
    )
    out_help = "folder for the reports and their specification"
    parser.add_argument("--out", type=output_folder, required=True, help=out_help)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """
    Returns:
        The exit code.

    Raises:
        UserError: the runs cannot be compared; no report is written then.
    """
    options = parser().parse_args(arguments)
    if bool(options.runs) == bool(options.seeds):
        raise UserError("Name the runs to compare, or else the runs of each method with --seeds METHOD=RUN,RUN.")
    from rl.evaluation.compared_runs import EVALUATION, comparison_spec, run_of_folder, specs_of_seeds

    methods = runs_of_methods(options.seeds or [])
    runs = [*(run.expanduser().resolve() for run in options.runs), *chain(*methods.values())]
    names = shortest_names([*dict.fromkeys(map(run_of_folder, runs))])
    if len(names) < len(runs):
        raise UserError("A run is named twice: name it once.")
    if options.out.resolve() in {folder for run in runs for folder in (run, run / EVALUATION)}:
        raise UserError(f"--out {options.out} holds one of the evaluations that are compared: name another folder.")
    if not methods:
        from rl.evaluation.outputs import SPEC

        spec = comparison_spec(dict(zip(names, runs, strict=True)))
        write_report(spec, options.out)
        spec.write(options.out / SPEC)
        written = [options.out / REPORT, options.out / PAGE, *sorted(options.out.glob("*.svg"))]
    else:
        from rl.evaluation.over_seeds import write_seeds

        specs = specs_of_seeds(methods)
        table = write_seeds(options.out, "seeds", specs, [*methods][:1])
        sys.stdout.write(f"{table.read_text(encoding='utf-8')}\n")
        reports = [options.out / f"seed_{seed}" / PAGE for seed in specs]
        written = [table, options.out / "seeds.json", *sorted(options.out.glob("pareto*.svg")), *reports]
    sys.stdout.writelines(f"{path}\n" for path in written)
    return 0


def runs_of_methods(words: Sequence[str]) -> dict[str, list[Path]]:
    """{method: absolute paths of its runs} from words METHOD=RUN,RUN; several words may name runs of one method."""
    found: dict[str, list[Path]] = {}
    for word in words:
        method, _, runs = word.partition("=")
        if not re.fullmatch(r"[\w.+-]+", method) or not all(runs.split(",")):
            raise UserError(f"--seeds {word}: give METHOD=RUN,RUN with the folders of a method's runs.")
        found.setdefault(method, []).extend(Path(run).expanduser().resolve() for run in runs.split(","))
    counts = {method: len(runs) for method, runs in found.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{method} {count}" for method, count in counts.items())
        raise UserError(
            f"--seeds: the methods have different numbers of runs ({listed}), but seeds are compared in pairs: name as "
            "many runs of each."
        )
    return found
