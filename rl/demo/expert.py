"""Responses that the demo's model did not write: the gold query of every training question, always in the same style.

python -m rl.demo.expert --task outputs/study/task --out outputs/study/data/expert.jsonl
"""

import argparse
import json
from pathlib import Path

import pyarrow.parquet as pq

from rl.common import atomic_write
from rl.demo.sql_solutions import announced
from rl.demo.task import GOLD_STYLE
from rl.demo.tokenizer import response_text


def expert_responses(train: Path) -> list[dict]:
    """A row per prompt of train.parquet, as data.sft_responses takes them."""
    rows = pq.read_table(train, columns=["id", "reward_model"]).to_pylist()
    queries = {row["id"]: row["reward_model"]["ground_truth"]["gold_sql"] for row in rows}
    return [
        {"id": number, "response": response_text(announced(GOLD_STYLE, sql)), "source": "gold"}
        for number, sql in queries.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rl.demo.expert", description="Write the demo's expert responses.")
    parser.add_argument("--task", type=Path, required=True, metavar="DIR", help="folder of the task")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON lines")
    arguments = parser.parse_args()
    rows = expert_responses(arguments.task / "train.parquet")
    atomic_write.write_text(arguments.out, "".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
