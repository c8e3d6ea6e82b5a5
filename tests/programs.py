"""Programs that tests start in the checkout."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rl.common.processes import end_process_tree

REPOSITORY = Path(__file__).resolve().parents[1]
SERVER_PROGRAM = REPOSITORY / "rl" / "scorer" / "scorer_server_without_ray.py"
SERVER_START_S, SERVER_END_S = 60, 20
# Variables of a training run at its smallest, through a launch script.
# Environment variables, and settings by their keys (apart).
SMALL_RUN = {
    "PYTHON": sys.executable,
    "DEVICE": "cpu",
    "GPUS_PER_NODE": "1",
    "OMP_NUM_THREADS": "1",
    "data.train_batch_size": "4",
    "actor_rollout_ref.actor.ppo_mini_batch_size": "2",
    "actor_rollout_ref.rollout.n": "4",
    "launch.sft_batch_size": "4",
    "launch.sft_normalization": "per_set",
    "actor_rollout_ref.actor.optim.lr": "1e-3",
    "trainer.total_epochs": "100",
    "trainer.test_freq": "-1",
    "SEED": "1",
}


def apart(settings: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The environment variables, and the others as words KEY=VALUE."""
    words = [f"{name}={value}" for name, value in settings.items() if "." in name]
    return {name: value for name, value in settings.items() if "." not in name}, words


def output_of(command: Sequence[str], *, environment: Mapping[str, str], timeout: float, cwd: Path = REPOSITORY) -> str:
    """What a program that ends well prints, stdout and stderr as one text.

    One that takes longer than `timeout` is ended with all that it started.
    """
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=said, stderr=subprocess.STDOUT)
        try:
            outcome = f"ended with {process.wait(timeout)}"
        except subprocess.TimeoutExpired:
            outcome = f"did not end within {timeout} s"
        finally:
            end_process_tree(process)
        said.seek(0)
        output = said.read()
    assert outcome == "ended with 0", f"{command} {outcome}:\n{output[-8000:]}"
    return output


@contextmanager
def serving(command: Sequence[object], folder: Path, **options) -> Iterator[tuple[subprocess.Popen, str]]:
    """The process and the address of a scorer server that a command starts, on a free port.

    Args:
        folder: where the server writes the file `address`.
        options: of subprocess.Popen.
    """
    address = folder / "address"
    words = [*map(str, command), "--port", "0", "--address-file", str(address)]
    with subprocess.Popen(words, **options) as process:
        try:
            deadline = time.monotonic() + SERVER_START_S
            while not address.exists():
                assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
                time.sleep(0.02)
            yield process, f"http://{address.read_text()}"
        finally:
            process.terminate()
            try:
                process.wait(SERVER_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
