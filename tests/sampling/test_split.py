"""The splitter on real files."""

import json
import runpy
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.common.errors import UserError
from rl.data.sample_file import metadata_path
from rl.data.split import Split, split, write_split
from rl.data.split_command import EXPERIMENTS
from tests.sample_files import N, write_samples

DATA = Path(__file__).parents[2] / "data"
PROGRAM, MATH_PROGRAM = (DATA / task / "process_data" / "exact_correct_id.py" for task in ("sql", "math"))
CORRECT = {10: [1, 1, 1, 1], 20: [0, 1, 1, 1], 30: [0, 1, 1, 0], 40: [0, 0, 0, 0]}
# Pass counts on either side of both families' thresholds.
OF_EIGHT = {10: 8, 20: 7, 30: 6, 40: 0, 50: 1}


def ids(part: pa.Table | Path) -> list[int]:
    return (pq.read_table(part) if isinstance(part, Path) else part)["id"].to_pylist()


def parts_of(data: Path, *samples: Path, threshold: int = 3, n: int = N, keep_zero: bool = True) -> Split:
    return split(data, samples, threshold=threshold, n=n, keep_zero=keep_zero)


def accs_of(counts: dict[int, int], n: int = N) -> dict[int, list[int]]:
    return {id: [1] * count + [0] * (n - count) for id, count in counts.items()}


@pytest.fixture
def data(tmp_path, make_row, write_parquet):
    """Ids in an order that is not theirs."""
    return write_parquet(tmp_path / "train.parquet", *(make_row(id) for id in (30, 10, 20, 40)))


@pytest.fixture
def of_eight(make_row, write_parquet):
    """Writes a parquet and 8 samples of each row into a folder."""

    def write(folder: Path) -> tuple[Path, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        data = write_parquet(folder / "train.parquet", *(make_row(id) for id in (30, 10, 20, 40, 50)))
        return data, write_samples(folder / "0.jsonl", data, accs_of(OF_EIGHT, 8), n=8)

    return write


@pytest.fixture
def run_program(monkeypatch, capsys):
    """Runs a splitter program: what it prints, by line, as words; or, where it exits with code 2, its sentence."""

    def run(program, *arguments):
        monkeypatch.setattr(sys, "argv", [str(program), *map(str, arguments)])
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as end:
            error = capsys.readouterr().err
            assert end.code == 2 and error.count("\n") == 1, error
            return error
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    return run


def test_files_keep_schema_and_rows_and_the_pass_counts(tmp_path, data):
    parts = parts_of(data, write_samples(tmp_path / "0.jsonl", data, CORRECT), threshold=4)
    out = tmp_path / "new" / "folder"
    paths = out / "correct.parquet", out / "wrong.parquet"
    write_split(parts, *paths)
    original = pq.read_table(data)
    for path, expected in zip(paths, ([10], [30, 20, 40]), strict=True):
        table = pq.read_table(path)
        with_counts = original.schema.append(pa.field("base_correct", pa.int32()))
        assert table.schema.equals(with_counts, check_metadata=True)
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
def test_laws(tmp_path_factory, make_row, write_parquet, counts, threshold, keep_zero):
    folder = tmp_path_factory.mktemp("split")
    data = write_parquet(folder / "train.parquet", *(make_row(id) for id in range(len(counts))))
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


def test_samples_in_several_files_and_prompts_that_were_too_long(tmp_path, data):
    one = write_samples(tmp_path / "0.jsonl", data, {10: CORRECT[10], 20: CORRECT[20]})
    two = write_samples(tmp_path / "1.jsonl", data, {30: CORRECT[30], 40: CORRECT[40]})
    assert ids(parts_of(data, one, two).correct) == [10, 20]
    other = write_samples(tmp_path / "2.jsonl", data, {40: CORRECT[40]}, model_hash="zz")
    with pytest.raises(UserError, match="2.jsonl are samples of different runs .model_hash is mh there and zz now"):
        parts_of(data, one, other)
    sampled = {id: accs for id, accs in CORRECT.items() if id != 10}
    parts = parts_of(data, write_samples(tmp_path / "3.jsonl", data, sampled, rows=3, overlong_ids=[10]))
    assert (ids(parts.correct), ids(parts.wrong), parts.overlong) == ([20], [30, 40], 1)


@pytest.mark.parametrize(
    "counts, threshold, keep_zero, sentence",
    [
        (
            [1, 3, 1, 0],
            4,
            True,
            "D_pef is empty at the threshold 4 (prompts by correct samples: 0 of 4: 1, 1 of 4: 2, 3 of 4: 1): "
            "--threshold 3 gives 1 prompts in D_pef and 3 in D_exp.",
        ),
        ([4, 0, 4, 0], 3, False, "--keep-zero puts the 2 without a correct sample into D_exp."),
        ([0, 0, 0, 0], 3, True, "no threshold helps, look at the samples with dph inspect."),
    ],
)
def test_an_empty_part_is_an_error_that_names_a_threshold(tmp_path, data, counts, threshold, keep_zero, sentence):
    accs = accs_of(dict(zip((10, 20, 30, 40), counts, strict=True)))
    with pytest.raises(UserError) as error:
        parts_of(data, write_samples(tmp_path / "0", data, accs), threshold=threshold, keep_zero=keep_zero)
    assert sentence in str(error.value)


def test_prompts_without_a_reference_are_counted_apart(tmp_path, data, run_program):
    """40's gold query failed in every sample; one failure of 30's, such as a timeout, is no such thing."""
    samples = write_samples(tmp_path / "0.jsonl", data, CORRECT)
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    for line in lines:
        if line["id"] == 40 or (line["id"], line["sample"]) == (30, 0):
            line["outcome"] = "gold_timeout" if line["sample"] == 0 else "gold_error"
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    parts = parts_of(data, samples)
    assert parts.gold_failed == [40] and parts.pass_counts == {4: 1, 3: 1, 2: 1} and ids(parts.wrong) == [30, 40]
    lines = run_program(PROGRAM, "--samples", samples, "--data", data, "--out", tmp_path, "--n", N, "--threshold", 3)
    assert ["no", "reference", "1", "D_exp", "#" * 40] in lines
    assert any(
        line[:9] == ["no", "reference:", "the", "gold", "answer", "of", "1", "prompt", "failed"] for line in lines
    )


LLAMA_SQL, LLAMA_MATH = ["Llama-SQL*", "6710", "2248", "25.1%"], ["Llama-Math*", "4599", "1248", "21.3%"]


@pytest.mark.parametrize(
    "program, options, near_perfect, explored, paper",
    [
        (PROGRAM, [], [30, 10, 20], [40, 50], LLAMA_SQL),
        (PROGRAM, ["--family", "qwen"], [10, 20], [30, 40, 50], ["OmniSQL-32B*", "5169", "3789", "42.3%"]),
        (PROGRAM, ["--threshold", 8, "--drop-zero"], [10], [30, 20, 50], ["0", "1", "dropped", "#" * 40]),
        (MATH_PROGRAM, ["--family", "qwen"], [10, 20], [30, 50], ["Qwen2.5-Math*", "7009", "3199", "31.3%"]),
        (MATH_PROGRAM, ["--keep-zero"], [30, 10, 20], [40, 50], LLAMA_MATH),
    ],
)
def test_the_papers_defaults(tmp_path, of_eight, run_program, program, options, near_perfect, explored, paper):
    """Llama 6 and Qwen 7 of 8; the math recipe drops prompts without a correct sample."""
    data, samples = of_eight(tmp_path)
    lines = run_program(program, "--samples", samples, "--data", data, "--out", tmp_path / "out", *options)
    assert ids(tmp_path / "out" / "train_correct.parquet") == near_perfect
    assert ids(tmp_path / "out" / "train_wrong.parquet") == explored
    assert paper in lines
    sizes = ["this", "split", str(len(explored)), str(len(near_perfect))]
    assert [line[:4] for line in lines if line[:1] == ["this"]] == [sizes]


def test_the_variables_of_the_scripts_are_read(tmp_path, of_eight, run_program, monkeypatch):
    """The road of the launch scripts: SETTINGS, then the folder of the model that MODEL_PATH names, then DATA_DIR."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "math" / "my-model"
    data, _ = of_eight(folder / "generate_data")
    for name, value in {"TRAIN_FILE": data, "SETTINGS": "llama_math", "MODEL_PATH": "/models/My-Model/"}.items():
        monkeypatch.setenv(name, str(value))
    run_program(PROGRAM)
    assert ids(folder / "train_correct.parquet") == [30, 10, 20]
    assert ids(folder / "train_wrong.parquet") == [50], "math drops prompts that no sample solved"

    monkeypatch.setenv("DATA_DIR", str(folder))
    monkeypatch.setenv("TRAIN_WRONG", str(tmp_path / "wrong.parquet"))
    monkeypatch.setenv("SETTINGS", "qwen_math")
    run_program(PROGRAM)
    assert ids(tmp_path / "wrong.parquet") == [30, 50]
    monkeypatch.setenv("SETTINGS", "./mine.sh")
    assert "SETTINGS=./mine.sh is a file of your own" in run_program(PROGRAM)
    run_program(PROGRAM, "--experiment", "qwen_math")


@pytest.mark.parametrize("model, folder", [("x/Llama-3.1-8B-Instruct", "llama3.1-8b"), ("a/My-Qwen/", "my-qwen")])
def test_the_folder_is_named_as_in_the_scripts(model, folder):
    assert EXPERIMENTS["llama_sql"].folder(model) == Path("data/sql") / folder


def test_wrong_files_and_settings_are_one_sentence(tmp_path, data, make_row, write_parquet, run_program):
    def samples(name: str, correct=CORRECT, of: Path = data, metadata: dict | None = None) -> Path:
        path = write_samples(tmp_path / f"{name}.jsonl", of, correct)
        content = json.loads(metadata_path(path).read_text()) | (metadata or {})
        metadata_path(path).write_text(json.dumps(content))
        return path

    good, deep, alone = samples("good"), samples("deep"), samples("alone")
    deep.write_text("[" * 100_000 + "\n")
    metadata_path(alone).unlink()
    lists = write_parquet(tmp_path / "lists.parquet", *(make_row(id) | {"id": [id]} for id in CORRECT))
    changed = write_parquet(tmp_path / "changed.parquet", *(make_row(id, data_source="bird") for id in CORRECT))
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(data.read_bytes()[:4] + bytes(200) + data.read_bytes()[204:])
    without_30 = {id: accs for id, accs in CORRECT.items() if id != 30}
    for arguments, sentence in [
        ([samples("few", {**CORRECT, 20: [1, 1]})], "id 20 has 2 samples, not 4: re-run the sampler"),
        ([samples("many", {**CORRECT, 20: [1] * 5})], "id 20 has 5 samples, not 4: sample again"),
        ([samples("absent", without_30)], "have no samples (the first is id 30)"),
        ([samples("surplus", {**CORRECT, 99: [1] * 4})], "does not have (the first is 99)"),
        ([samples("n", metadata={"n": "4"})], "n.meta.json: n is '4', which no run writes"),
        ([samples("files", metadata={"data_files": {"a": 1}})], "data_files is"),
        ([alone], "alone.meta.json, the metadata of alone.jsonl, cannot be read"),
        ([deep], "deep.jsonl line 1 is not a sample record"),
        ([good, "--threshold", 5], "Error: The threshold is 5 of n = 4 samples: give one from 1 to n.\n"),
        ([good, "--n", 8], "drawn with n = 4 samples per prompt, not 8: pass --n 4"),
        ([good, "--data", changed], "changed.parquet is not the file that"),
        ([good, "--data", tmp_path], "cannot be read (Is a directory)"),
        ([samples("l", of=lists), "--data", lists], "ids of the type list<"),
        ([samples("d", of=damaged), "--data", damaged], "cannot be read as parquet"),
        ([good, "--out", data], "cannot be written"),
    ]:
        options = ["--data", data, "--out", tmp_path / "out", "--n", N, "--threshold", 3]
        assert sentence in run_program(PROGRAM, *options, "--samples", *arguments), arguments
    assert not (tmp_path / "out").exists()
    of_four = run_program(PROGRAM, "--data", data, "--samples", good, "--n", N)
    assert "threshold assumes 8 samples per prompt, not 4: pass --threshold" in of_four
