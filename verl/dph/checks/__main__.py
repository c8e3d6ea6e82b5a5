"""`python -m verl.dph.checks PROGRAM [KEY=VALUE ...]`: check a run and start nothing, for `dph doctor SCRIPT`.

PROGRAM is verl.dph.main or verl.dph.presample. Prints a JSON object per check (rl/checks/finding.py).
"""

import json
import sys
from dataclasses import asdict
from functools import partial

from omegaconf import DictConfig

from verl.dph.checks.run import CHECKS, findings
from verl.dph.config.program import run_main

SHORT_WAIT_S = 5.0  # for the scorer; a run waits longer


def print_findings(program: str, config: DictConfig) -> None:
    for name, finding in findings(config, program, SHORT_WAIT_S):
        sys.stdout.write(json.dumps({"check": name} | asdict(finding)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] not in ([name] for name in CHECKS):
        sys.exit(f"usage: python -m verl.dph.checks {{{','.join(CHECKS)}}} [KEY=VALUE ...]")
    run_main(partial(print_findings, checked := sys.argv.pop(1)), checked)
