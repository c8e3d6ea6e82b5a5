"""The program `dph doctor`: one line per check, printed as it ends."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator

from rl.configuration.methods import known_variables
from rl.configuration.names import misspelt
from rl.doctor import hardware, installation
from rl.doctor.all_reduce import all_reduce
from rl.doctor.finding import Finding, fail, skipped, warn
from rl.doctor.machine import Broken, Machine

TO_MEND_EXIT_CODE = 1

# In the order of the output: what the later ones build on comes first.
CHECKS: dict[str, Callable[[Machine], Finding]] = {
    "python": installation.python,
    "driver": hardware.driver,
    "GPUs": hardware.gpus,
    "torch": installation.torch,
    "compiler": installation.compiler,
    "verl": installation.verl,
    "plugin": installation.plugin,
    "vLLM": installation.vllm,
    "attention": installation.attention,
    "cupy": installation.cupy,
    "ranks": all_reduce,
    "Ray's CPUs": hardware.ray_cpus,
    "shared memory": hardware.shared_memory,
    "open files": hardware.open_files,
    "disk": hardware.disk,
}


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Check this machine and its environment, and with a launch script what its run needs. Nothing is\n"
        "started. One line per check: ok, warn (it works, but as the line says), fail (it does not; what to do) or\n"
        "skipped. DEVICE=cpu checks for the CPU on a machine with GPUs. Exit code 0; 1: a check failed; 2: the script\n"
        "rejects its arguments (docs/reference/doctor.md).",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, at the end")
    parser.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT ARGUMENT ...",
        help="of a run that is to be started, such as scripts/llama/js_kl.sh my_run 0.2",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """
    Returns:
        The exit code, 0 or TO_MEND_EXIT_CODE.

    Raises:
        UserError: the script rejects its arguments.
    """
    options = parser().parse_args(arguments)
    failed, listed = False, []
    for name, finding in findings(options.script):
        failed |= finding.status == "fail"
        if options.json:
            listed.append(finding.as_json(name))
        else:
            _print(name, finding)
    if options.json:
        sys.stdout.write(json.dumps({"ok": not failed, "checks": listed}, indent=2) + "\n")
    return TO_MEND_EXIT_CODE if failed else 0


def findings(script: list[str]) -> Iterator[tuple[str, Finding]]:
    """Name and finding of each check, as it ends.

    Args:
        script: a launch script and its arguments; empty: the machine and its environment alone.

    Raises:
        UserError: the script rejects its arguments.
    """
    run, missing = None, None
    if script:
        try:
            from rl.configuration.run import run_of
            from rl.doctor.run_checks import run_findings
        except ImportError as error:
            missing = error
        else:
            run = run_of(script[0], script[1:])
    machine = Machine.of(run)
    for sentence in misspelt(os.environ, known_variables()):
        yield "variables", warn(sentence, "")
    for name, check in CHECKS.items():
        yield name, finding_of(check, machine)
    if missing is not None:
        yield "settings", fail(f"{sys.executable} cannot check a run ({missing})", installation.INSTALL)
    elif run is not None:
        yield from run_findings(machine, run)


def finding_of(check: Callable[[Machine], Finding], machine: Machine) -> Finding:
    """A check that breaks is a line of its own: the others still tell something."""
    try:
        return check(machine)
    except Broken as error:
        return skipped(f"the environment cannot be looked into ({error})")
    except Exception as error:
        return fail(f"the check itself failed ({type(error).__name__}: {error})", "report it with this line.")


def _print(name: str, finding: Finding) -> None:
    words = f"{finding.found.removesuffix('.')}: {finding.advice}" if finding.advice else finding.found
    sys.stdout.write(f"{name:<14} {finding.status:<8} {'; '.join(words.splitlines())}\n")
    sys.stdout.flush()
