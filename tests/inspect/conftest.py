"""Small files of every kind, made by the project's own writers, and the command on them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl.common.fingerprint import file_sha256
from rl.data.inspect.command import main
from rl.data.sample_file import SampleMetadata, SampleRecord, SampleWriter

N = 4


def math_row(id: int, /, text: str | None = None, **changes) -> dict:
    return {
        "id": id,
        "data_source": "math500",
        "prompt": [{"role": "user", "content": text or f"question {id}"}],
        "reward_model": {"style": "rule", "ground_truth": str(id)},
    } | changes


@pytest.fixture(scope="session")
def make_row():
    return math_row


@pytest.fixture(scope="session")
def write_parquet():
    def write(path: Path, *rows: dict) -> Path:
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return path

    return write


def record(id: int, sample: int, acc: int, **changes) -> SampleRecord:
    values = {
        "id": id,
        "sample": sample,
        "input": f"<user>question {id}<answer>",
        "output": "right" if acc else "wrong!",
        "response_ids": [5] * (2 + sample),
        "score": float(acc),
        "acc": acc,
        "pred": str(id),
        "outcome": "match" if acc else "mismatch",
        "data_source": "math500",
        "truncated": False,
    }
    return SampleRecord(**values | changes)


@pytest.fixture(scope="session")
def make_record():
    return record


@pytest.fixture(scope="session")
def write_samples():
    """Writes samples of `data`: a list of records, or for each id the acc of each of its N samples."""

    def write(path: Path, data: Path, samples, **changes) -> Path:
        values = {
            "model": "/models/base",
            "model_hash": "mh",
            "tokenizer_hash": "th",
            "temperature": 1.0,
            "top_p": 0.95,
            "top_k": -1,
            "n": N,
            "seed": 7,
            "max_response_length": 8,
            "data_files": {str(data): file_sha256(data)},
            "rows": pq.read_metadata(data).num_rows,
        }
        if isinstance(samples, dict):
            samples = [record(id, i, acc) for id, accs in samples.items() for i, acc in enumerate(accs)]
        with SampleWriter(path, SampleMetadata(**values | changes)) as writer:
            for sample in samples:
                writer.append(sample)
        return path

    return write


@pytest.fixture(scope="session")
def write_store():
    """Writes (prompt, response) token ids by id; every token has the log-prob -0.5, the next tokens .5, .25 and .25."""

    # Inspecting a store loads verl; inspecting anything else does not.
    import torch

    from verl.dph.pef.store import Row, Store

    def write(path: Path, rows: dict[int, tuple[list[int], list[int]]], top_k: bool = False, **meta) -> Path:
        def top(tokens: int) -> tuple:
            if not top_k:
                return ()
            log_probs = torch.tensor([0.5, 0.25]).log().expand(tokens, 2)
            return torch.tensor([3, 4]).expand(tokens, 2), log_probs, torch.full((tokens,), 0.25).log()

        made = [
            Row(id, torch.tensor(prompt), torch.tensor(response), torch.full((tokens,), -0.5), *top(tokens))
            for id, (prompt, response) in rows.items()
            for tokens in [len(response)]
        ]
        known = {"model": "m", "model_hash": "a", "tokenizer_hash": "b", "temperature": 1.0, "max_response_length": 4}
        Store(known | meta, made).save(str(path))
        return path

    return write


@pytest.fixture
def inspect(capsys):
    """Runs the command with --json: (exit code, the object)."""

    def run(*arguments) -> tuple[int, dict]:
        code = main(["--json", *map(str, arguments)])
        return code, json.loads(capsys.readouterr().out, parse_constant=pytest.fail)

    return run


@pytest.fixture
def refused(capsys):
    """Runs the command on what it refuses: the sentence."""

    def run(*arguments) -> str:
        with pytest.raises(SystemExit) as stop:
            main([*map(str, arguments)])
        assert stop.value.code == 2
        printed = capsys.readouterr()
        assert not printed.out and printed.err.count("\n") == 1
        return printed.err

    return run
