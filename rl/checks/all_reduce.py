"""One sum over this machine's ranks, as training makes them: NCCL between its GPUs, gloo on a CPU.

`python -m rl.checks.all_reduce RANK RANKS BACKEND FILE` is one rank.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rl.checks.finding import Finding, fail, ok, skipped
from rl.checks.machine import Machine, last_line

LIMIT_S = 120
RANKS_ON_CPU = 2
NUMBERS = 1 << 20
ADVICE = {
    "nccl": "look at NCCL_DEBUG=INFO; try NCCL_P2P_DISABLE=1, a larger /dev/shm, NCCL_SOCKET_IFNAME for the interface.",
    "gloo": "name the network interface in GLOO_SOCKET_IFNAME, or let the host's name resolve (/etc/hosts).",
}


def all_reduce(machine: Machine) -> Finding:
    ranks, backend = (RANKS_ON_CPU, "gloo") if machine.on_cpu else (min(machine.ranks, len(machine.gpus)), "nccl")
    torch = machine.probe("torch")
    if not machine.on_cpu and (torch["error"] is not None or torch["nccl"] is None or not ranks):
        return skipped("torch cannot use the GPUs")
    version = "gloo" if machine.on_cpu else f"NCCL {torch['nccl']}"
    started = time.monotonic()
    problem = _sum(machine, ranks, backend)
    if problem is not None:
        return fail(f"{version} cannot sum over {ranks} processes: {problem}", ADVICE[backend])
    return ok(f"{version} sums over {ranks} processes, {time.monotonic() - started:.0f} s with their start")


def _sum(machine: Machine, ranks: int, backend: str) -> str | None:
    """Run all ranks. Returns None, or what the first rank that failed said."""
    environment = {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1"} | machine.environment
    with tempfile.TemporaryDirectory(prefix="dph-doctor-") as folder:
        logs = [Path(folder, f"rank{rank}.log") for rank in range(ranks)]
        processes = []
        for rank, log in enumerate(logs):
            words = [str(rank), str(ranks), backend, f"{folder}/meeting"]
            command = [machine.python, "-m", "rl.checks.all_reduce", *words]
            with open(log, "wb") as output:
                processes.append(
                    subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
                )
        try:
            return _outcome(processes, logs, time.monotonic() + LIMIT_S)
        finally:
            for process in processes:
                process.kill()
                process.wait()


def _outcome(processes: list[subprocess.Popen], logs: list[Path], deadline: float) -> str | None:
    while time.monotonic() < deadline:
        codes = [process.poll() for process in processes]
        for code, log in zip(codes, logs, strict=True):
            if code:
                return last_line(log.read_text(errors="replace")) or f"a rank ended with {code}"
        if all(code == 0 for code in codes):
            return None
        time.sleep(0.05)
    said = next(filter(None, (last_line(log.read_text(errors="replace")) for log in logs)), "nothing was said")
    return f"no result within {LIMIT_S:g} s ({said})"


def _rank(rank: int, ranks: int, backend: str, meeting: str) -> None:
    import torch

    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    numbers = torch.full((NUMBERS,), float(rank + 1), device=device)
    torch.distributed.all_reduce(numbers)
    expected = ranks * (ranks + 1) / 2
    if not (numbers == expected).all():
        sys.exit(f"the sum is {numbers[0].item():g}, not {expected:g}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    _rank(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
