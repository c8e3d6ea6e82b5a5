"""The program `dph compare`: report finished runs side by side, or methods over training seeds, without sampling."""

import argparse
import re
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from rl.common.cli import output_folder
from rl.common.errors import UserError
from rl.evaluation.report.write import PAGE, REPORT, write_report


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Report several finished runs side by side (report.html, report.json, pareto.svg), with their\n"
        "training curves. The samples come from their evaluations (RUN/evaluation, or an output folder of dph\n"
        "evaluate). Nothing is sampled.\n"
        "With --seeds, compare methods over training seeds: a table of means, intervals and paired tests (seeds.md,\n"
        "seeds.json, pareto.svg), and a report of each seed.",
    )
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="a run's folder, or one of dph evaluate")
    parser.add_argument(
        "--seeds",
        nargs="+",
        metavar="METHOD=RUN,RUN",
        help="instead of RUN: a method's runs, one per seed, in the same order of seeds for every method",
    )
    parser.add_argument(
        "--baselines",
        metavar="METHOD,METHOD",
        help="with --seeds: the methods that every other one is compared with (default: the first one)",
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
    if bool(options.runs) == bool(options.seeds) or (options.baselines and not options.seeds):
        raise UserError(
            "Name the runs to compare, or else the runs of each method with --seeds METHOD=RUN,RUN and, with them, "
            "--baselines."
        )
    from rl.evaluation.compared_runs import EVALUATION, comparison_spec, names_of
    from rl.evaluation.outputs import SPEC

    methods = runs_of_methods(options.seeds or [])
    named = {} if options.seeds else names_of(options.runs)
    runs = [run.resolve() for run in [*named.values(), *chain(*methods.values())]]
    if options.out.resolve() in {folder for run in runs for folder in (run, run / EVALUATION)}:
        raise UserError(f"--out {options.out} holds one of the evaluations that are compared: name another folder.")
    if methods:
        return _compare_seeds(methods, options.baselines, options.out)
    spec = comparison_spec(named)
    write_report(spec, options.out)
    spec.write(options.out / SPEC)
    written = [options.out / REPORT, options.out / PAGE, *sorted(options.out.glob("*.svg"))]
    sys.stdout.writelines(f"{path}\n" for path in written)
    return 0


def runs_of_methods(words: Sequence[str]) -> dict[str, list[Path]]:
    """{method: its runs} from words METHOD=RUN,RUN; several words may name runs of one method.

    Raises:
        UserError: a word has another form, or the methods have different numbers of runs.
    """
    found: dict[str, list[Path]] = {}
    for word in words:
        method, _, runs = word.partition("=")
        if not re.fullmatch(r"[\w.+-]+", method) or not all(runs.split(",")):
            raise UserError(f"--seeds {word}: give METHOD=RUN,RUN with the folders of a method's runs.")
        found.setdefault(method, []).extend(Path(run).expanduser() for run in runs.split(","))
    counts = {method: len(runs) for method, runs in found.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{method} {count}" for method, count in counts.items())
        raise UserError(
            f"--seeds: the methods have different numbers of runs ({listed}), but seeds are compared in pairs: name as "
            "many runs of each."
        )
    return found


def _compare_seeds(methods: dict[str, list[Path]], baselines: str | None, out: Path) -> int:
    from rl.evaluation.compared_runs import specs_of_seeds
    from rl.evaluation.over_seeds import write_seeds

    against = baselines.split(",") if baselines else [*methods][:1]
    if unknown := [name for name in against if name not in methods]:
        raise UserError(f"--baselines {baselines}: {unknown[0]} is not one of {', '.join(methods)}.")
    specs = specs_of_seeds(methods)
    table = write_seeds(out, "seeds", specs, against)
    reports = [out / f"seed_{seed}" / PAGE for seed in specs]
    written = [table, out / "seeds.json", *sorted(out.glob("pareto*.svg")), *reports]
    sys.stdout.write(f"{table.read_text(encoding='utf-8')}\n" + "".join(f"{path}\n" for path in written))
    return 0
