"""Time to write and load a D_pef store, and its memory compared with its size on disk.

    python benchmarks/store.py [--rows 2248] [--prompt 1500] [--response 300] [--top-k 0 64]

Writes a store of random tokens for each k into a temporary folder, as generate_sft does but with log-probs that need no
model: in parts of --part rows, then as the store. Opens it in a fresh process as the trainer does.
Memory is the growth of that process's resident set, including the file's mapped pages: after loading, and after every
row was put into the columns of a mini-batch once, --batch at a time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import torch

from verl.dph.pef.logprob_shards import fill_in_parts
from verl.dph.pef.store import Row, Store
from verl.dph.training import mixed_batch

VOCABULARY = 128_000
DTYPES = dict.fromkeys(mixed_batch.FIELDS, torch.int64) | {"old_log_probs": torch.float32, "advantages": torch.float32}


def random_store(rows: int, prompt: int, response: int, k: int) -> Store:
    """Lengths between a half and one and a half of the means."""
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
    """The store's file, and the seconds for its parts and itself."""
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
    """What a training step makes of its D_pef rows."""
    mixed_batch.columns_of(rows, [1] * len(rows), DTYPES, top_k=rows[0].top_ids is not None)


def measure(path: str, batch: int) -> dict[str, float]:
    """Seconds to load and bytes that the process grew by, in this process."""
    with tempfile.TemporaryDirectory() as folder:  # what torch imports at first use is no part of a store
        random_store(2, 8, 8, 8).save(f"{folder}/tiny.pt")
        columns(Store.load(f"{folder}/tiny.pt").rows)
    process = psutil.Process()
    before = process.memory_info().rss
    started = time.perf_counter()
    store = Store.load(path)
    seconds = time.perf_counter() - started
    loaded = process.memory_info().rss - before
    for start in range(0, len(store), batch):
        columns(store.rows[start : start + batch])
    visited = process.memory_info().rss - before
    return {"seconds": seconds, "loaded": loaded, "visited": visited}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=2248)
    parser.add_argument("--prompt", type=int, default=1500, help="mean tokens of a prompt")
    parser.add_argument("--response", type=int, default=300, help="mean tokens of a response")
    parser.add_argument("--top-k", type=int, nargs="+", default=[0, 64])
    parser.add_argument("--batch", type=int, default=128, help="D_pef rows of a mini-batch")
    parser.add_argument("--part", type=int, default=256, help="rows a part (data.sft_reference_rows)")
    parser.add_argument("--open", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        sys.stdout.write(json.dumps(measure(options.open, options.batch)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for k in options.top_k:
            store = random_store(options.rows, options.prompt, options.response, k)
            path, seconds = write(store, Path(folder), options.part)
            command = [sys.executable, __file__, "--open", str(path), "--batch", str(options.batch)]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            size = path.stat().st_size
            sys.stdout.write(
                f"k {k:<4}{size / 1e6:8.1f} MB   written in {seconds:.2f} s   load {found['seconds']:.3f} s   "
                f"memory over file size: {found['loaded'] / size:.2f} after loading, "
                f"{found['visited'] / size:.2f} after visiting every row\n"
            )


if __name__ == "__main__":
    main()
