"""What the checks of a machine look at: the device that a run would use here, its GPUs and its Python."""

import csv
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from rl.checks.finding import Unknown
from rl.common.errors import last_line
from rl.configuration.names import has_gpu, is_cpu
from rl.configuration.names import python as interpreter

if TYPE_CHECKING:
    from rl.configuration.run import Run

PROBE_LIMIT_S = 120
SMI_LIMIT_S = 30
_GPU_FIELDS = ("index", "uuid", "name", "memory.total", "memory.used")


@dataclass(frozen=True)
class Gpu:
    """A GPU as nvidia-smi lists it; memory in MiB."""

    index: str
    uuid: str
    name: str
    memory: int
    used: int


@dataclass
class Machine:
    """This machine, and the run that is to be started on it, if there is one.

    Attributes:
        device: "cuda" or "cpu".
        why: how the device was chosen.
        python: the interpreter that the run would use.
        probes: what probe() has found, or why it could not.
    """

    device: str
    why: str
    python: str = field(default_factory=interpreter)
    run: "Run | None" = None
    probes: dict[str, dict | Unknown] = field(default_factory=dict)

    @classmethod
    def of(cls, run: "Run | None") -> "Machine":
        """The device is the run's (rl/configuration/run.py), else the one that DEVICE names or this machine has."""
        if run is not None:
            device = run.device
            return cls("cpu" if is_cpu(device) else device, f"device={device}", run=run)
        if device := os.environ.get("DEVICE", ""):
            return cls("cpu" if is_cpu(device) else device, f"DEVICE={device}")
        if has_gpu():
            return cls("cuda", "there is an NVIDIA GPU")
        return cls("cpu", "no NVIDIA GPU: no /dev/nvidia0, or CUDA_VISIBLE_DEVICES hides it")

    @property
    def on_cpu(self) -> bool:
        return self.device == "cpu"

    @property
    def ranks(self) -> int:
        """Processes that train on this machine; without a run, one per visible GPU."""
        if self.run is not None:
            return self.run.values["trainer.n_gpus_per_node"]
        return 1 if self.on_cpu else len(self.gpus)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the run's programs."""
        return os.environ | (self.run.environment if self.run is not None else {})

    @cached_property
    def gpus(self) -> list[Gpu]:
        return visible_gpus()

    def probe(self, name: str, *arguments: str) -> dict:
        """What a function of probe.py finds, in a separate process with the run's Python and environment.

        Raises:
            Unknown: it failed. It runs once, and every later call fails the same way.
        """
        if name not in self.probes:
            try:
                command = [self.python, "-m", "rl.checks.probe", name, *arguments]
                text = run_program(command, PROBE_LIMIT_S, self.environment)
                self.probes[name] = json.loads(text.splitlines()[-1])
            except Unknown as error:
                self.probes[name] = error
        found = self.probes[name]
        if isinstance(found, Unknown):
            raise found
        return found


def visible_gpus() -> list[Gpu]:
    """The machine's GPUs; if CUDA_VISIBLE_DEVICES is set, those that it names, in its order.

    Raises:
        Unknown: nvidia-smi is missing or fails.
    """
    query = ["nvidia-smi", f"--query-gpu={','.join(_GPU_FIELDS)}", "--format=csv,noheader,nounits"]
    text = run_program(query, SMI_LIMIT_S)
    found = [
        Gpu(index, uuid, name, _mebibytes(memory), _mebibytes(used))
        for index, uuid, name, memory, used in _rows(text, len(_GPU_FIELDS))
    ]
    if not found:
        raise Unknown(f"nvidia-smi lists no GPU: {text.strip().splitlines()[0] if text.strip() else 'nothing'}")
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return found
    named = [name.strip() for name in chosen.split(",")]
    return [gpu for name in named for gpu in found if name == gpu.index or name and gpu.uuid.startswith(name)]


def run_program(command: Sequence[str], limit_s: float, environment: dict[str, str] | None = None) -> str:
    """A program's standard output; when it takes too long, it is killed with all that it started.

    Raises:
        Unknown: it cannot be run, fails or takes too long; the text is the last line that it printed.
    """
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise Unknown(f"{command[0]}: {error.strerror}") from error
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        said = last_line(errors or output)
        raise Unknown(f"no answer within {limit_s:g} s" + (f" ({said})" if said else "")) from error
    if process.returncode:
        raise Unknown(last_line(errors or output) or f"{command[0]} ended with {process.returncode}")
    return output


def _rows(text: str, columns: int) -> list[list[str]]:
    """nvidia-smi's lines that have this number of columns; others are messages."""
    return [row for row in csv.reader(text.splitlines(), skipinitialspace=True) if len(row) == columns]


def _mebibytes(text: str) -> int:
    return int(text) if text.isdigit() else 0  # "[N/A]" on machines whose GPU shares the main memory
