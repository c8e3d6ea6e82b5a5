"""Checks of a launch script's run: its settings, data, model, store and scorer, made in a process of the run's own."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rl.cluster.scorer import temporary_scorer
from rl.common.errors import UserError
from rl.configuration.run import Run
from rl.doctor.finding import Finding, fail, skipped
from rl.doctor.machine import Machine, last_line


def run_findings(machine: Machine, run: Run) -> Iterator[tuple[str, Finding]]:
    """Run `python -m verl.dph.check` as the script would run its program, with a scorer as the script starts one.

    Yields:
        Name and finding of each check, as it ends.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dph-doctor-")))
        environment, instead, begins = machine.environment, None, ""
        if _starts_scorers(run) and machine.nodes > 1:
            instead = skipped(
                "the other nodes serve it from their own databases; training asks them once they have joined"
            )
        elif _starts_scorers(run):
            config, databases, python = Path(run.launch.scorer_config), run.launch.databases, run.launch.python
            server = temporary_scorer(config, Path(databases) if databases else None, folder / "scorer.log", python)
            try:
                environment |= {"DPH_SCORER": stack.enter_context(server)}
                begins = f"{config} starts: "
            except UserError as error:
                instead = fail(str(error), f"correct SCORER_CONFIG={config} or DATABASE_PATH={databases}.")
        for name, finding in _findings(machine, run, environment, folder / "errors.log"):
            if name == "scorer":
                finding = instead or replace(finding, found=begins + finding.found)
            yield name, finding


def _starts_scorers(run: Run) -> bool:
    """Whether the script starts scorers of its own: none is named."""
    return not run.launch.scorer


def _findings(
    machine: Machine, run: Run, environment: dict[str, str], log: Path
) -> Iterator[tuple[str, Finding]]:
    command = [run.launch.python, "-m", "verl.dph.check", *run.words[1:]]
    with open(log, "wb") as errors:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            # Libraries print too.
            if line.startswith('{"check": '):
                found = json.loads(line)
                yield found.pop("check"), Finding(**found)
        if process.wait():
            said = last_line(log.read_text(errors="replace"))
            yield "settings", fail(said.removeprefix("Error: ") or f"{command[2]} ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()
