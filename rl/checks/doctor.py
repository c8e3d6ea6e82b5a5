"""The program `dph doctor`: checks the machine, its environment and a run, and prints a line as each check ends."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rl.checks.finding import Finding, fail, skipped
from rl.cluster.scorer import UNSET_SCORER_VARIABLES, temporary_scorer
from rl.common.errors import UserError, cause_in, file_errors
from rl.configuration.names import device_of, python

if TYPE_CHECKING:
    from rl.configuration.run import Run

TO_MEND_EXIT_CODE = 1


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Check this machine and its environment, and with a launch script what its run needs. Nothing is\n"
        "started. One line per check: ok, warn (it works, but as the line says), fail (it does not; what to do) or\n"
        "skipped. DEVICE=cpu checks for the CPU on a machine with GPUs. Exit code 0; 1: a check failed; 2: the script\n"
        "rejects its arguments (docs/howto/plan.md).",
    )
    parser.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT ARGUMENT ...",
        help="the run to check, such as scripts/llama/js_kl.sh my_run 0.2",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Print the findings, and at the end which checks failed.

    Returns:
        The exit code, 0 or TO_MEND_EXIT_CODE.
    """
    options = parser().parse_args(arguments)
    failed = []
    for name, finding in findings(options.script):
        if finding.status == "fail":
            failed.append(name)
        sys.stdout.write(f"{name:<14} {finding.status:<8} {'; '.join(finding.found.splitlines())}\n")
        sys.stdout.flush()
    sys.stdout.write(f"\nFailed: {', '.join(failed)}.\n" if failed else "\nNo check failed.\n")
    return TO_MEND_EXIT_CODE if failed else 0


def findings(script: Sequence[str]) -> Iterator[tuple[str, Finding]]:
    """Name and finding of each check, as it ends.

    Args:
        script: a launch script and its arguments; empty: the machine and its environment alone.
    """
    run, device, ranks = None, device_of(()), 1
    if script:
        from rl.configuration.arguments import run_of
        from rl.configuration.variables import check_variables

        check_variables(os.environ)
        run = run_of(script[0], script[1:])
        device, ranks = run.device, run.values["trainer.n_gpus_per_node"]
    variables = os.environ | (run.environment if run else {})
    with tempfile.TemporaryDirectory(prefix="dph-doctor-") as folder:
        yield from _printed(["rl.checks.environment", device, str(ranks)], variables, Path(folder))
        if run is not None:
            yield from run_findings(run, variables, Path(folder))


def run_findings(run: "Run", variables: dict[str, str], folder: Path) -> Iterator[tuple[str, Finding]]:
    """Check a run in a process of its own Python, with a scorer that is started as the script would start it.

    Args:
        variables: the environment of the run's programs.
        folder: for logs.

    Yields:
        Name and finding of each check, as it ends.
    """
    launch, instead, begins = run.launch, None, ""
    with ExitStack() as stack:
        if not launch.scorer and run.values["trainer.nnodes"] > 1:
            instead = skipped("each node starts a scorer of its own; training checks them once all have joined")
        elif not launch.scorer:  # the script starts its own
            config, databases = Path(launch.scorer_config), Path(launch.databases) if launch.databases else None
            server = temporary_scorer(config, databases, folder / "scorer.log", python())
            try:
                variables = variables | UNSET_SCORER_VARIABLES | {"DPH_SCORER": stack.enter_context(server)}
                begins = f"{config} starts: "
            except UserError as error:
                instead = fail(f"{error} (launch.scorer_config={config})")
        for name, finding in _printed(["verl.dph.checks.run", *run.words[1:]], variables, folder):
            if name == "scorer":
                finding = instead or replace(finding, found=begins + finding.found)
            yield name, finding


def _printed(words: list[str], variables: dict[str, str], folder: Path) -> Iterator[tuple[str, Finding]]:
    """The findings that a module of the run's Python prints; a failure with the module's name if it dies.

    Args:
        words: the module and its arguments.
    """
    log = folder / "errors.log"
    with open(log, "wb") as errors, file_errors(python(), "run", "name the environment's Python in PYTHON"):
        process = subprocess.Popen(
            [python(), "-m", *words],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            # Libraries print too.
            if line.startswith('{"check": '):
                found = json.loads(line)
                yield found.pop("check"), Finding(**found)
        if process.wait():
            yield words[0], fail(cause_in(log, silent=f"it ended with {process.returncode}"))
    finally:
        process.kill()
        process.wait()
