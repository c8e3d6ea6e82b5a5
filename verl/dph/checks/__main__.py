"""`python -m verl.dph.checks PROGRAM [KEY=VALUE ...]`: check a run and start nothing, for `dph doctor SCRIPT`.

PROGRAM is verl.dph.main or verl.dph.presample. Prints a JSON object per check (rl/checks/finding.py).
"""

import sys
from functools import partial

from omegaconf import DictConfig

from rl.checks.finding import print_all
from verl.dph.checks.run import CHECKS, findings
from verl.dph.config.program import run_main

SHORT_WAIT_S = 5.0  # for the scorer; a run waits longer


def print_findings(program: str, config: DictConfig) -> None:
    print_all(findings(config, program, SHORT_WAIT_S))


if __name__ == "__main__":
    if sys.argv[1:2] not in ([name] for name in CHECKS):
        sys.exit(f"usage: python -m verl.dph.checks {{{','.join(CHECKS)}}} [KEY=VALUE ...]")
    run_main(partial(print_findings, checked := sys.argv.pop(1)), checked)
