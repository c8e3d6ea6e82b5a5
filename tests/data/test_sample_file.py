import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.common.errors import UserError
from rl.data.metadata_file import metadata_path
from rl.data.sample_file import (
    PendingResponse,
    SampleRecord,
    SampleWriter,
    journal_path,
    read_metadata,
    read_samples,
)
from tests.sample_files import metadata
from tests.sample_files import record as sample_record

METADATA = metadata(n=2, seed=1, data_files={"/data/train.parquet": "cc"}, rows=2)


def record(id: int, sample: int, output: str = "SELECT 1") -> SampleRecord:
    return sample_record(id, sample, 1, output=output)


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


@pytest.mark.parametrize("cut", [1, 60])
def test_a_torn_last_line_is_cut_off_and_sampled_again(tmp_path, cut):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0), record(1, 1))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with pytest.raises(UserError, match="line 2 is not a sample record"):
        list(read_samples(path))
    with SampleWriter(path, METADATA) as writer:
        assert (1, 0) in writer.done and (1, 1) not in writer.done and len(writer.done) == 1
        writer.append(record(1, 1))
    assert path.read_bytes() == whole


def test_damaged_and_repeated_lines(tmp_path):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 40 + b"\n")
    write(path, record(1, 1))
    assert [(r.id, r.sample) for r in read_samples(path)] == [(1, 0), (1, 1)], "a corrupt last line is cut off"
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(UserError, match="line 1 is damaged and others follow it"):
        write(path)
    path.write_bytes(whole * 2)
    with pytest.raises(UserError, match="line 2 repeats sample 0 of id 1"):
        list(read_samples(path))


@pytest.mark.parametrize(
    "change, named",
    [
        ({"model_hash": "zz"}, "model_hash mh, not zz"),
        (
            {"data_files": {"/data/train.parquet": "dd"}},
            r"data_files .*train.parquet .cc., not /data/train.parquet .dd.",
        ),
    ],
)
def test_samples_of_another_run_are_rejected(tmp_path, change, named):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    before = path.read_bytes()
    with pytest.raises(UserError, match=named):
        write(path, metadata=dataclasses.replace(METADATA, **change))
    assert path.read_bytes() == before
    # The same files under other paths are the same run.
    moved = dataclasses.replace(METADATA, model="/elsewhere", data_files={"train.parquet": "cc"})
    write(path, record(1, 1), metadata=moved)
    assert len(list(read_samples(path))) == 2


def test_every_setting_counts_unless_it_may_differ():
    one = dataclasses.replace(METADATA, scorer="ab" * 32)
    for name in vars(one):
        other = dataclasses.replace(one, **{name: {"train.parquet": "dd"} if name == "data_files" else "another"})
        found = one.difference(other)
        assert found is None if name == "model" else found.startswith(f"{name} "), name
        assert one.difference(other, besides=[name]) is None, name


def test_samples_that_another_scorer_judged_are_not_continued(tmp_path):
    path = tmp_path / "0.jsonl"
    for scorer in ("ab" * 32, "cd" * 32):  # nothing is judged yet
        with SampleWriter(path, METADATA) as writer:
            writer.keep(PendingResponse(id=1, sample=0, response_ids=[3], seconds=0.1))
            writer.judged_by(scorer)
    with SampleWriter(path, METADATA) as writer:
        writer.append(record(1, 0))
        writer.judged_by("")  # a server that does not say
        with pytest.raises(UserError, match="holds 1 samples that a .* judged .verdict_sha256 was cdcd.* and is efef"):
            writer.judged_by("ef" * 32)
    assert read_metadata(path).scorer == "cd" * 32
    assert read_metadata(path).difference(dataclasses.replace(METADATA, scorer="ef" * 32)).startswith("scorer cdcd")


def test_after_a_scorer_that_did_not_say_the_next_one_that_says_counts(tmp_path):
    path = tmp_path / "0.jsonl"
    with SampleWriter(path, METADATA) as writer:
        writer.judged_by("")
        writer.append(record(1, 0))
        writer.judged_by("ab" * 32)
        with pytest.raises(UserError, match="holds 1 samples that a scorer with other settings judged"):
            writer.judged_by("cd" * 32)
    assert read_metadata(path).scorer == "ab" * 32


def test_metadata_that_are_missing_or_foreign(tmp_path):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    stored = json.loads(metadata_path(path).read_text())
    metadata_path(path).write_text(json.dumps(stored | {"format": "other/9"}))
    with pytest.raises(UserError, match="not of the format dph-samples/1"):
        write(path)
    del stored["seed"]
    metadata_path(path).write_text(json.dumps(stored))
    with pytest.raises(UserError, match="seed is wrong"):
        read_metadata(path)
    metadata_path(path).unlink()
    with pytest.raises(UserError, match="0.meta.json, the metadata of 0.jsonl, cannot be read"):
        write(path)
    with pytest.raises(UserError, match="There are no samples at .*none.jsonl: draw them first"):
        read_metadata(tmp_path / "none.jsonl")


def test_two_writers_do_not_share_a_file_and_one_without_a_sample_leaves_nothing(tmp_path):
    path = tmp_path / "0.jsonl"
    with SampleWriter(path, METADATA), pytest.raises(UserError, match="Another process is writing"):
        SampleWriter(path, METADATA)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_the_optional_fields_is_read_and_continued(tmp_path):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    added = ("response_log_probs", "result_digest", "result_rows")
    older = {key: value for key, value in json.loads(path.read_text()).items() if key not in added}
    path.write_text(json.dumps(older) + "\n")
    newer = dataclasses.replace(record(1, 1), response_log_probs=[-0.5, -1.25, 0.0], result_digest="ab")
    write(path, newer)
    assert list(read_samples(path)) == [record(1, 0), newer]


def response(id: int, sample: int, seconds: float = 1.0) -> PendingResponse:
    drawn = {"response_ids": [3, 4, 2], "response_log_probs": [-0.5, -1.25, 0.0]}
    return PendingResponse(id=id, sample=sample, seconds=seconds, **drawn)


def test_an_answer_waits_until_its_record_is_written(tmp_path):
    path = tmp_path / "0.jsonl"
    with SampleWriter(path, METADATA) as writer:
        for pair in [(1, 0), (1, 1), (2, 0)]:
            writer.keep(response(*pair, seconds=2.5))
        writer.append(record(1, 1))
    with SampleWriter(path, METADATA) as writer:
        assert dict(writer.waiting) == {(1, 0): response(1, 0, 2.5), (2, 0): response(2, 0, 2.5)}
        assert writer.seconds == 2.5
        for pair in [(1, 0), (2, 0)]:
            writer.append(record(*pair))
    assert journal_path(path).exists()
    write(path, record(2, 1))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["0.jsonl", "0.meta.json"]


def test_answers_without_any_record_are_kept_and_belong_to_their_run(tmp_path):
    path = tmp_path / "0.jsonl"
    with SampleWriter(path, METADATA) as writer:
        writer.keep(response(1, 0))
    with pytest.raises(UserError, match="seed 1, not 2"):
        write(path, metadata=dataclasses.replace(METADATA, seed=2))
    with SampleWriter(path, METADATA) as writer:
        assert list(writer.waiting) == [(1, 0)]
    for deleted in (path, metadata_path(path)):
        deleted.unlink()
    with SampleWriter(path, METADATA) as writer:
        assert not writer.waiting
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [lambda text: text[:-9], lambda text: text + b"\0" * 30 + b"\n"])
def test_a_last_answer_that_is_torn_or_damaged_is_cut_off(tmp_path, damage):
    path = tmp_path / "0.jsonl"
    with SampleWriter(path, METADATA) as writer:
        writer.keep(response(1, 0))
        writer.keep(response(1, 1))
    journal_path(path).write_bytes(damage(journal_path(path).read_bytes()))
    with SampleWriter(path, METADATA) as writer:
        assert (1, 0) in writer.waiting
        if (1, 1) not in writer.waiting:
            writer.keep(response(1, 1))
    with SampleWriter(path, METADATA) as writer:
        assert list(writer.waiting) == [(1, 0), (1, 1)]


def test_a_full_disk_is_a_sentence_and_leaves_whole_lines(tmp_path, full_disk):
    path = tmp_path / "0.jsonl"
    write(path, record(1, 0))
    before = path.read_bytes()
    with SampleWriter(path, METADATA) as writer:
        writer.keep(response(1, 1))
        with full_disk(len(before) + 20):
            for _ in range(2):
                with pytest.raises(UserError, match=r"0.jsonl cannot be written \(File too large\): make room"):
                    writer.append(record(1, 1))
            assert path.read_bytes() == before and (1, 1) not in writer.done
        with full_disk(journal_path(path).stat().st_size + 20), pytest.raises(UserError, match="cannot be written"):
            writer.keep(response(2, 0))
    with SampleWriter(path, METADATA) as writer:
        assert list(writer.waiting) == [(1, 1)]
        writer.append(record(1, 1))
    assert [(r.id, r.sample) for r in read_samples(path)] == [(1, 0), (1, 1)]
