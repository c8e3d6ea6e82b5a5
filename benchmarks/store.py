"""Seconds and memory of a D_pef store from its rows to an epoch of training, memory as a multiple of its size on disk.

    python benchmarks/store.py [--rows 2248] [--prompt 1500] [--response 300] [--top-k 0 64]
    python benchmarks/store.py --rows 100000 --top-k 0 --budget

For each k, the program writes a store of random tokens to a temporary folder, first in parts of --part rows and then as
the store, like generate_sft but with log-probs that need no model. A new process opens the store as the trainer does,
verifies it (100 rows are compared with an engine's results, which come from the file here; all are fingerprinted), and
visits every row once, which puts it into the columns of a mini-batch of --batch rows.
Memory is the growth of the process's resident set, including the file's mapped pages: its peak while the store is
written, with the rows themselves; after loading; and after the visits. --budget exits with 1 when BUDGET is exceeded.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch
from cost import in_own_process, resident

from verl.dph.pef.ref_logprobs import fill_in_parts
from verl.dph.pef.store import Row, Store
from verl.dph.pef.verify import Tolerance, check_reference
from verl.dph.pef.visit_order import RehearsalOrder
from verl.dph.training import mixed_batch

torch.set_num_threads(1)  # so that other programs matter less
VOCABULARY = 128_000

# The limits for 100,000 rows without next tokens (841 MB): about three times the time measured on two shared cores
# (docs/explanation/measurements.md), and a quarter more than the measured memory.
BUDGET = {"write s": 30, "load s": 4, "verify s": 6, "visit s": 25, "write x": 3.1, "load x": 0.4, "visit x": 1.6}
DTYPES = dict.fromkeys(mixed_batch.FIELDS, torch.int64) | {"old_log_probs": torch.float32, "advantages": torch.float32}


def random_store(rows: int, prompt: int, response: int, k: int) -> Store:
    """A store of random tokens, with lengths between 0.5 and 1.5 times the means."""
    generator = torch.Generator().manual_seed(0)

    def length(mean):
        return int(torch.randint(max(mean // 2, 1), mean * 3 // 2 + 1, (1,), generator=generator))

    def ids(*shape):
        return torch.randint(VOCABULARY, shape, dtype=torch.int32, generator=generator)

    def row(i):
        p, r = length(prompt), length(response)
        top = (ids(r, k), torch.zeros(r, k, dtype=torch.float16), torch.zeros(r, dtype=torch.float16)) if k else ()
        return Row(i, ids(p), ids(r), torch.zeros(r), *top)

    return Store({}, [row(i) for i in range(rows)])


def write(store: Store, folder: Path, size: int) -> tuple[Path, float]:
    """Write the store's parts and the store; return its file and the seconds."""
    names = [
        name for name in ("ref_log_probs", "top_ids", "top_log_probs", "rest_log_prob") if store.top_k or "ref" in name
    ]
    ready = {row.id: {name: getattr(row, name) for name in names} for row in store.rows}
    bare = [Row(row.id, row.prompt, row.response, None) for row in store.rows]
    path = folder / f"{store.top_k}.pt"

    def engine(rows: list[Row]) -> dict[str, list[torch.Tensor]]:
        return {name: [ready[row.id][name] for row in rows] for name in names}

    started = time.perf_counter()
    fill_in_parts(bare, engine, folder=path.with_suffix(".parts"), size=size, origin={})
    Store(store.meta, bare).save(str(path))
    return path, time.perf_counter() - started


def columns(rows: list[Row]) -> None:
    """Make the columns that a training step makes of its D_pef rows."""
    mixed_batch.columns_of(rows, [1] * len(rows), DTYPES, top_k=rows[0].top_ids is not None)


def measure(path: str, batch: int) -> dict[str, float]:
    """Seconds of each phase, and the bytes by which this process grew."""
    with tempfile.TemporaryDirectory() as folder:  # torch's imports at first use do not count
        random_store(2, 8, 8, 8).save(f"{folder}/tiny.pt")
        columns(Store.load(f"{folder}/tiny.pt").rows)
    before, found, clock = resident("VmRSS"), {}, Clock()
    store = Store.load(path)
    found["load s"], found["load x"] = clock.lap(), resident("VmRSS") - before

    def engine(rows: list[Row]) -> dict[str, list[torch.Tensor]]:
        names = ["ref_log_probs", "top_log_probs"] if store.top_k else ["ref_log_probs"]
        return {name: [getattr(row, name).clone() for row in rows] for name in names}

    check_reference(store, path, engine, tolerance=Tolerance.of("float32", None), seed=1)
    order = RehearsalOrder([row.id for row in store.rows], seed=1, store=store.fingerprint())
    found["verify s"] = clock.lap()
    while order.position < len(store):
        columns([store.rows[i] for i in order.take(min(batch, len(store) - order.position))])
    found["visit s"], found["visit x"] = clock.lap(), resident("VmRSS") - before
    return found


class Clock:
    def __init__(self):
        self.started = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last call."""
        last, self.started = self.started, time.perf_counter()
        return self.started - last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=2248)
    parser.add_argument("--prompt", type=int, default=1500, help="mean tokens of a prompt")
    parser.add_argument("--response", type=int, default=300, help="mean tokens of a response")
    parser.add_argument("--top-k", type=int, nargs="+", default=[0, 64])
    parser.add_argument("--batch", type=int, default=128, help="D_pef rows of a mini-batch")
    parser.add_argument("--part", type=int, default=256, help="rows per part (data.sft_reference_rows)")
    parser.add_argument("--budget", action="store_true", help="compare with the budget of 100,000 rows")
    options = parser.parse_args()
    exceeded = []
    for k in options.top_k:
        with tempfile.TemporaryDirectory() as folder:
            before = resident("VmRSS")
            store = random_store(options.rows, options.prompt, options.response, k)
            path, seconds = write(store, Path(folder), options.part)
            found = {"write s": seconds, "write x": resident("VmHWM") - before}
            found |= in_own_process(measure, str(path), options.batch)
            size = path.stat().st_size
        found = {name: value / size if name.endswith(" x") else value for name, value in found.items()}
        sys.stdout.write(f"{options.rows} rows, k {k}, {size / 1e6:.1f} MB")
        for phase in ("write", "load", "verify", "visit"):
            memory = f" and {found[f'{phase} x']:.2f} x in memory" if f"{phase} x" in found else ""
            sys.stdout.write(f"; {phase} {found[f'{phase} s']:.2f} s{memory}")
        sys.stdout.write("\n")
        exceeded += [
            f"k {k}: {name} {found[name]:.2f} of {limit}" for name, limit in BUDGET.items() if found[name] > limit
        ]
    if options.budget:
        sys.stdout.write(f"over budget: {', '.join(exceeded)}\n" if exceeded else "within the budget\n")
        sys.exit(bool(exceeded))


if __name__ == "__main__":
    main()
