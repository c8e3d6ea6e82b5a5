"""What the checks of a machine look at: the device that a run would use here, and its Python's packages and GPUs."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rl.common.errors import last_line
from rl.configuration.names import device_of, is_cpu
from rl.configuration.names import python as interpreter

if TYPE_CHECKING:
    from rl.configuration.run import Run

PROBE_LIMIT_S = 120


class Unknown(Exception):
    """An environment cannot be examined; the text says why."""


@dataclass
class Machine:
    """This machine, and the run that is to be started on it, if there is one.

    Attributes:
        on_cpu: whether the run, or one that is started here as things are, uses the CPU.
        python: the interpreter that the run would use.
    """

    on_cpu: bool
    python: str = field(default_factory=interpreter)
    run: "Run | None" = None

    @classmethod
    def of(cls, run: "Run | None") -> "Machine":
        return cls(is_cpu(device_of(()) if run is None else run.device), run=run)

    @property
    def ranks(self) -> int:
        """Processes that train on this machine; without a run, at least one."""
        return self.run.values["trainer.n_gpus_per_node"] if self.run is not None else 1

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the run's programs."""
        return os.environ | (self.run.environment if self.run is not None else {})

    @cached_property
    def packages(self) -> dict[str, Any]:
        """What probe.py finds in a separate process with the run's Python and environment.

        Raises:
            Unknown: it cannot be run, fails or takes too long; the text is the last line that it printed.
        """
        try:
            done = subprocess.run(
                [self.python, "-m", "rl.checks.probe"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PROBE_LIMIT_S,
            )
        except OSError as error:
            raise Unknown(error.strerror) from error
        except subprocess.TimeoutExpired as error:
            raise Unknown(f"no answer within {PROBE_LIMIT_S:g} s") from error
        if done.returncode:
            raise Unknown(last_line(done.stderr or done.stdout) or f"it ended with {done.returncode}")
        return json.loads(done.stdout.splitlines()[-1])
