"""Time and memory of data preparation on inputs of the published sizes.

    python benchmarks/prepare.py [--questions 9428] [--databases 69] [--rows 2000] [--dapo-problems 17000] \\
        [--dapo-copies 20]

It writes databases with questions in BIRD's format and a parquet in DAPO-Math-17K's format to a temporary folder, and
runs data/sql/prepare_bird.py and data/math/prepare_dapo.py on them as programs. Seconds and peak memory include the
whole process with its imports.
"""

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DATA = Path(__file__).resolve().parents[1] / "data"
SEED = 0


def make_bird(folder: Path, questions: int, databases: int, rows: int) -> None:
    """Write train.json and train_databases: 3 to 14 tables a database, 5 to 20 columns and `rows` rows a table."""
    rng = random.Random(SEED)
    for number in range(databases):
        path = folder / "train_databases" / f"db{number}" / f"db{number}.sqlite"
        path.parent.mkdir(parents=True)
        with closing(sqlite3.connect(path)) as database, database:
            for table in range(rng.randint(3, 14)):
                types = rng.choices(["TEXT", "INTEGER", "REAL"], k=rng.randint(4, 19))
                columns = ", ".join(f"column_{position} {kind}" for position, kind in enumerate(types))
                database.execute(f"CREATE TABLE table_{table} (id INTEGER PRIMARY KEY, {columns})")
                database.executemany(
                    f"INSERT INTO table_{table} VALUES (?{', ?' * len(types)})",
                    ((row, *(f"value {row}" if kind == "TEXT" else row for kind in types)) for row in range(rows)),
                )
    records = [
        {"db_id": f"db{number % databases}", "question": f"Question {number}?", "evidence": "none", "SQL": "SELECT 1"}
        for number in range(questions)
    ]
    (folder / "train.json").write_text(json.dumps(records))


def make_dapo(path: Path, problems: int, copies: int) -> None:
    """Write every problem `copies` times, each of them once before any is repeated."""
    rng = random.Random(SEED)
    rows = [
        {
            "prompt": [{"content": f"Problem {number}: {'x' * rng.randint(100, 600)}", "role": "user"}],
            "reward_model": {"ground_truth": str(number), "style": "rule"},
            "extra_info": {"index": str(number)},
        }
        for number in range(problems)
    ]
    table = pa.Table.from_pylist(rows)
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(copies):
            writer.write_table(table)


def measure(program: str, *arguments: str | Path) -> str:
    """Seconds and peak memory of a program."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, DATA / program, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{program} failed.")
    return f"{time.perf_counter() - started:.1f} s, {usage.ru_maxrss / 1024:.0f} MiB at its peak"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=9428)
    parser.add_argument("--databases", type=int, default=69)
    parser.add_argument("--rows", type=int, default=2000, help="rows of a table (default: %(default)s)")
    parser.add_argument("--dapo-problems", type=int, default=17_000)
    parser.add_argument("--dapo-copies", type=int, default=20, help="rows of a problem; published: about 100")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_bird(folder, options.questions, options.databases, options.rows)
        make_dapo(folder / "dapo.parquet", options.dapo_problems, options.dapo_copies)
        bird = measure(
            "sql/prepare_bird.py",
            *("--split", "train", "--input", folder / "train.json", "--databases", folder / "train_databases"),
            *("--output", folder / "bird.parquet"),
        )
        dapo = measure("math/prepare_dapo.py", "--input", folder / "dapo.parquet", "--output", folder / "out.parquet")
    sys.stdout.write(f"prepare_bird, {options.questions} questions, {options.databases} databases: {bird}\n")
    rows = options.dapo_problems * options.dapo_copies
    sys.stdout.write(f"prepare_dapo, {rows} rows of {options.dapo_problems} problems: {dapo}\n")


if __name__ == "__main__":
    main()
