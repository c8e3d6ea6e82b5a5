"""The split on real files."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.common.errors import UserError
from rl.data.sample_file import read_metadata
from rl.data.split import MODEL_HASH, Split, model_of, split, write_split
from tests.sample_files import N, math_row, write_parquet, write_samples

CORRECT = {10: [1, 1, 1, 1], 20: [0, 1, 1, 1], 30: [0, 1, 1, 0], 40: [0, 0, 0, 0]}


def ids(part: pa.Table | Path) -> list[int]:
    return (pq.read_table(part) if isinstance(part, Path) else part)["id"].to_pylist()


def parts_of(data: Path, samples: Path, threshold: int = 3, n: int = N, keep_zero: bool = True) -> Split:
    return split(data, samples, threshold=threshold, n=n, keep_zero=keep_zero)


def accs_of(counts: dict[int, int], n: int = N) -> dict[int, list[int]]:
    return {id: [1] * count + [0] * (n - count) for id, count in counts.items()}


def test_files_keep_schema_and_rows_and_the_pass_counts(tmp_path, data):
    samples = write_samples(tmp_path / "0.jsonl", data, CORRECT)
    parts, model = parts_of(data, samples, threshold=4), read_metadata(samples).model_hash
    out = tmp_path / "new" / "folder"
    paths = out / "correct.parquet", out / "wrong.parquet"
    write_split(parts, *paths)
    original = pq.read_table(data)
    for path, expected in zip(paths, ([10], [30, 20, 40]), strict=True):
        table = pq.read_table(path)
        with_counts = original.schema.append(pa.field("base_correct", pa.int32()))
        metadata = (original.schema.metadata or {}) | {MODEL_HASH: model.encode()}
        assert table.schema.equals(with_counts.with_metadata(metadata), check_metadata=True)
        assert model_of(path) == model and model_of(data) is None
        assert table.to_pylist() == [
            row | {"base_correct": sum(CORRECT[row["id"]])} for row in original.to_pylist() if row["id"] in expected
        ]
    assert sorted(path.name for path in out.iterdir()) == ["correct.parquet", "wrong.parquet"]

    # A part can be split again.
    again = write_samples(tmp_path / "1.jsonl", paths[1], {20: [1] * 4, 30: [0] * 4, 40: [0] * 4})
    parts = parts_of(paths[1], again)
    assert (ids(parts.correct), parts.correct["base_correct"].to_pylist()) == ([20], [4])
    assert (ids(parts.wrong), parts.wrong["base_correct"].to_pylist()) == ([30, 40], [0, 0])


@given(
    counts=st.lists(st.integers(0, N), min_size=1, max_size=8),
    threshold=st.integers(1, N),
    keep_zero=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_laws(tmp_path_factory, counts, threshold, keep_zero):
    folder = tmp_path_factory.mktemp("split")
    data = write_parquet(folder / "train.parquet", *(math_row(id) for id in range(len(counts))))
    samples = write_samples(folder / "0.jsonl", data, accs_of(dict(enumerate(counts))))
    near_perfect = [id for id, count in enumerate(counts) if count >= threshold]
    explored = [id for id, count in enumerate(counts) if (not keep_zero) <= count < threshold]
    if not near_perfect or not explored:
        part = "D_exp" if near_perfect else "D_pef"
        with pytest.raises(UserError, match=f"^{part} is empty at the threshold {threshold} "):
            parts_of(data, samples, threshold=threshold, keep_zero=keep_zero)
        return
    parts = parts_of(data, samples, threshold=threshold, keep_zero=keep_zero)
    assert (ids(parts.correct), ids(parts.wrong)) == (near_perfect, explored)
    assert parts.dropped_zero == len(counts) - len(near_perfect) - len(explored)
    assert parts.pass_counts == Counter(counts)


def test_prompts_that_were_too_long(tmp_path, data):
    sampled = {id: accs for id, accs in CORRECT.items() if id != 10}
    parts = parts_of(data, write_samples(tmp_path / "3.jsonl", data, sampled, rows=3, overlong_ids=[10]))
    assert (ids(parts.correct), ids(parts.wrong), parts.overlong) == ([20], [30, 40], 1)
