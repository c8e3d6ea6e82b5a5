import dataclasses
import json
import resource
import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl.dph.errors import UserError
from verl.dph.records import SampleMetadata, SampleRecord, SampleWriter, metadata_path, read_metadata, read_samples

METADATA = SampleMetadata(
    model="/models/base",
    model_hash="aa",
    tokenizer_hash="bb",
    temperature=1.0,
    top_p=0.95,
    top_k=-1,
    n=2,
    seed=1,
    max_response_length=32,
    data_files={"/data/train.parquet": "cc"},
    rows=2,
)


def record(id: int, sample: int, output: str = "SELECT 1") -> SampleRecord:
    return SampleRecord(
        id=id,
        sample=sample,
        input="question",
        output=output,
        response_ids=[3, 4, 2],
        score=1.0,
        acc=1,
        pred=output,
        outcome="match",
        data_source="sql",
        truncated=False,
    )


def write(path, *records, metadata=METADATA):
    with SampleWriter(path, metadata) as writer:
        for item in records:
            writer.append(item)


@given(st.lists(st.text(st.characters(codec=None)), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("records") / "0.jsonl"
    records = [record(7, index, text) for index, text in enumerate(texts)]
    write(path, *records)
    assert list(read_samples(path)) == records
    assert read_metadata(path) == METADATA


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_torn_last_line_is_cut_off_and_sampled_again(tmp_path, cut):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0), record(1, 1))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with pytest.raises(UserError, match="line 2 is not a sample record"):
        list(read_samples(path))
    with SampleWriter(path, METADATA) as writer:
        assert writer.done == {(1, 0)}
        writer.append(record(1, 1))
    assert path.read_bytes() == whole


def test_a_corrupt_last_line_is_cut_off_and_one_in_the_middle_is_not(tmp_path):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 40 + b"\n")
    write(path, record(1, 1))
    assert [(r.id, r.sample) for r in read_samples(path)] == [(1, 0), (1, 1)]
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(UserError, match="line 1 is not a sample record"):
        write(path)


@pytest.mark.parametrize(
    "change, named",
    [
        ({"model_hash": "zz"}, "model_hash is aa there and zz now"),
        ({"temperature": 0.6}, "temperature is 1.0 there and 0.6 now"),
        ({"data_files": {"/data/train.parquet": "dd"}}, "data_files"),
        ({"n": 4}, "n is 2 there and 4 now"),
    ],
)
def test_samples_of_another_run_are_refused(tmp_path, change, named):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    before = path.read_bytes()
    with pytest.raises(UserError, match=named):
        write(path, metadata=dataclasses.replace(METADATA, **change))
    assert path.read_bytes() == before


def test_the_same_files_under_other_paths_are_the_same_run(tmp_path):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    moved = dataclasses.replace(METADATA, model="/elsewhere", data_files={"train.parquet": "cc"})
    write(path, record(1, 1), metadata=moved)
    assert len(list(read_samples(path))) == 2


def test_a_run_without_a_sample_leaves_nothing(tmp_path):
    write(tmp_path / "0.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_repeated_sample_is_refused(tmp_path):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(UserError, match="line 2 repeats sample 0 of id 1"):
        list(read_samples(path))


def test_metadata_that_are_missing_or_foreign(tmp_path):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    stored = json.loads(metadata_path(path).read_text())
    metadata_path(path).write_text(json.dumps(stored | {"format": "other/9"}))
    with pytest.raises(UserError, match="not of the format dph-samples/1"):
        write(path)
    del stored["seed"]
    metadata_path(path).write_text(json.dumps(stored))
    with pytest.raises(UserError, match="lacks seed"):
        read_metadata(path)
    metadata_path(path).unlink()
    with pytest.raises(UserError, match="0.meta.json, the metadata of 0.jsonl, cannot be read"):
        write(path)


def test_two_writers_do_not_share_a_file(tmp_path):
    path = tmp_path / "0.jsonl"
    with SampleWriter(path, METADATA), pytest.raises(UserError, match="Another process is writing"):
        SampleWriter(path, METADATA)
    write(path, record(1, 0))


def test_a_full_disk_is_a_sentence_and_the_run_resumes(tmp_path):
    """RLIMIT_FSIZE fails the write as a full disk does, part of the line written."""
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    limit = path.stat().st_size + 20
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(UserError, match=r"cannot be written \(File too large\)"):
            write(path, record(1, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert path.stat().st_size == limit
    write(path, record(1, 1))
    assert [(r.id, r.sample) for r in read_samples(path)] == [(1, 0), (1, 1)]
