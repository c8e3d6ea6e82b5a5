"""The splitter on real files."""

import dataclasses
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.common.errors import UserError
from rl.common.fingerprint import file_sha256
from rl.data.sample_file import SampleMetadata, SampleRecord, SampleWriter, metadata_path
from rl.data.split import split, write_split
from rl.data.split_command import EXPERIMENTS

DATA = Path(__file__).parents[2] / "data"
PROGRAM, MATH_PROGRAM = (DATA / task / "process_data" / "exact_correct_id.py" for task in ("sql", "math"))
N = 4


def metadata_of(data: Path, **changes) -> SampleMetadata:
    values = {
        "model": "m",
        "model_hash": "mh",
        "tokenizer_hash": "th",
        "temperature": 1.0,
        "top_p": 0.95,
        "top_k": -1,
        "n": N,
        "seed": 1,
        "max_response_length": 8,
        "data_files": {str(data): file_sha256(data)},
        "rows": pq.read_metadata(data).num_rows,
    }
    return SampleMetadata(**values | changes)


def write_samples(path: Path, metadata: SampleMetadata, correct: dict[int, list[int]]) -> Path:
    """`correct`: for each id the acc of each of its samples."""
    with SampleWriter(path, metadata) as writer:
        for id, accs in correct.items():
            for number, acc in enumerate(accs):
                writer.append(
                    SampleRecord(
                        id, number, "q", "a", [1], float(acc), acc, "a", "match" if acc else "mismatch", "sql", False
                    )
                )
    return path


@pytest.fixture
def data(tmp_path, make_row, write_parquet):
    """Ids in an order that is not theirs."""
    return write_parquet(tmp_path / "train.parquet", *(make_row(id) for id in (30, 10, 20, 40)))


CORRECT = {10: [1, 1, 1, 1], 20: [0, 1, 1, 1], 30: [0, 1, 1, 0], 40: [0, 0, 0, 0]}


def ids(table: pa.Table) -> list[int]:
    return table["id"].to_pylist()


def test_a_hand_made_case(tmp_path, data):
    samples = write_samples(tmp_path / "0.jsonl", metadata_of(data), CORRECT)
    parts = split(data, [samples], threshold=3, n=N, keep_zero=True)
    assert (ids(parts.correct), ids(parts.wrong)) == ([10, 20], [30, 40])
    assert parts.pass_counts == {4: 1, 3: 1, 2: 1, 0: 1}
    dropped = split(data, [samples], threshold=3, n=N, keep_zero=False)
    assert (ids(dropped.correct), ids(dropped.wrong), dropped.dropped_zero) == ([10, 20], [30], 1)


def test_files_keep_schema_and_rows_and_the_pass_counts(tmp_path, data):
    samples = write_samples(tmp_path / "0.jsonl", metadata_of(data), CORRECT)
    parts = split(data, [samples], threshold=4, n=N, keep_zero=True)
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


@given(
    counts=st.lists(st.integers(0, N), min_size=1, max_size=8),
    threshold=st.integers(1, N),
    keep_zero=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_laws(tmp_path_factory, make_row, write_parquet, counts, threshold, keep_zero):
    folder = tmp_path_factory.mktemp("split")
    data = write_parquet(folder / "train.parquet", *(make_row(id) for id in range(len(counts))))
    accs = {id: [1] * count + [0] * (N - count) for id, count in enumerate(counts)}
    samples = write_samples(folder / "0.jsonl", metadata_of(data), accs)
    explored = [id for id, count in enumerate(counts) if (not keep_zero) <= count < threshold]
    if not explored or max(counts) < threshold:
        part = "D_exp" if max(counts) >= threshold else "D_pef"
        with pytest.raises(UserError, match=f"^{part} is empty at the threshold {threshold} "):
            split(data, [samples], threshold=threshold, n=N, keep_zero=keep_zero)
        return
    parts = split(data, [samples], threshold=threshold, n=N, keep_zero=keep_zero)
    assert not set(ids(parts.correct)) & set(ids(parts.wrong))
    assert parts.correct.num_rows + parts.wrong.num_rows + parts.dropped_zero == len(counts)
    assert ids(parts.correct) == [id for id, count in enumerate(counts) if count >= threshold]
    assert ids(parts.wrong) == explored
    assert parts.pass_counts.total() == len(counts)


def test_prompts_that_were_too_long_are_left_out_and_counted(tmp_path, data):
    sampled = {id: accs for id, accs in CORRECT.items() if id != 10}
    samples = write_samples(tmp_path / "0.jsonl", metadata_of(data, rows=3, overlong_ids=[10]), sampled)
    parts = split(data, [samples], threshold=3, n=N, keep_zero=True)
    assert (ids(parts.correct), ids(parts.wrong), parts.overlong) == ([20], [30, 40], 1)


def test_a_part_can_be_split_again(tmp_path, data):
    first = write_samples(tmp_path / "0.jsonl", metadata_of(data), CORRECT)
    wrong = tmp_path / "wrong.parquet"
    write_split(split(data, [first], threshold=4, n=N, keep_zero=True), tmp_path / "correct.parquet", wrong)
    again = write_samples(tmp_path / "1.jsonl", metadata_of(wrong), {20: [1] * 4, 30: [0] * 4, 40: [0] * 4})
    parts = split(wrong, [again], threshold=3, n=N, keep_zero=True)
    assert parts.correct["base_correct"].to_pylist() == [4]
    assert parts.wrong.select(["id", "base_correct"]).to_pylist() == [
        {"id": 30, "base_correct": 0},
        {"id": 40, "base_correct": 0},
    ]


def test_samples_in_several_files(tmp_path, data):
    metadata = metadata_of(data)
    one = write_samples(tmp_path / "0.jsonl", metadata, {10: CORRECT[10], 20: CORRECT[20]})
    two = write_samples(tmp_path / "1.jsonl", metadata, {30: CORRECT[30], 40: CORRECT[40]})
    assert ids(split(data, [one, two], threshold=3, n=N, keep_zero=True).correct) == [10, 20]
    other = write_samples(tmp_path / "2.jsonl", dataclasses.replace(metadata, model_hash="zz"), {40: CORRECT[40]})
    with pytest.raises(UserError, match="2.jsonl are samples of different runs .model_hash is mh there and zz now"):
        split(data, [one, other], threshold=3, n=N, keep_zero=True)


@pytest.mark.parametrize(
    "correct, named",
    [
        ({**CORRECT, 20: [1, 1]}, "id 20 has 2 samples, not 4: re-run the sampler"),
        ({**CORRECT, 20: [1] * 5}, "id 20 has 5 samples, not 4: sample again"),
        ({id: accs for id, accs in CORRECT.items() if id != 30}, "1 prompts of .* have no samples .the first is id 30"),
        ({**CORRECT, 99: [1] * 4}, "1 ids that .* does not have .the first is 99"),
    ],
)
def test_samples_that_do_not_fit_are_refused(tmp_path, data, correct, named):
    samples = write_samples(tmp_path / "0.jsonl", metadata_of(data), correct)
    with pytest.raises(UserError, match=named):
        split(data, [samples], threshold=3, n=N, keep_zero=True)


def test_settings_and_files_that_do_not_fit_are_refused(tmp_path, data, make_row, write_parquet):
    samples = write_samples(tmp_path / "0.jsonl", metadata_of(data), CORRECT)
    with pytest.raises(UserError, match="threshold is 5 of n = 4"):
        split(data, [samples], threshold=5, n=N, keep_zero=True)
    with pytest.raises(UserError, match="drawn with n = 4 samples per prompt, not 8: pass --n 4"):
        split(data, [samples], threshold=6, n=8, keep_zero=True)
    changed = write_parquet(tmp_path / "changed.parquet", *(make_row(id, data_source="bird") for id in CORRECT))
    with pytest.raises(UserError, match="changed.parquet is not the file that .*0.jsonl was sampled from"):
        split(changed, [samples], threshold=3, n=N, keep_zero=True)
    metadata_path(samples).unlink()
    with pytest.raises(UserError, match="0.meta.json"):
        split(data, [samples], threshold=3, n=N, keep_zero=True)


def test_the_command(tmp_path, data, monkeypatch, capsys):
    def run(*arguments):
        command = [str(PROGRAM), "--samples", str(samples), "--data", str(data), "--n", str(N), *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", command)
        runpy.run_path(str(PROGRAM), run_name="__main__")

    samples = write_samples(tmp_path / "0.jsonl", metadata_of(data), CORRECT)
    run("--out", tmp_path / "out", "--threshold", 3, "--drop-zero")
    assert ids(pq.read_table(tmp_path / "out" / "train_correct.parquet")) == [10, 20]
    assert ids(pq.read_table(tmp_path / "out" / "train_wrong.parquet")) == [30]
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["this", "split", "1", "2", "66.7%"] in lines
    assert ["Llama-SQL*", "6710", "2248", "25.1%"] in lines
    assert ["0", "1", "dropped", "#" * 40] in lines

    with pytest.raises(SystemExit) as stop:
        run("--out", tmp_path / "none", "--threshold", 9)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "Error: The threshold is 9 of n = 4 samples: give one from 1 to n.\n"
    assert not (tmp_path / "none").exists()


@pytest.fixture
def run_program(monkeypatch, capsys):
    """Runs a splitter program and returns what it prints, by line, as words."""

    def run(program, *arguments):
        monkeypatch.setattr(sys, "argv", [str(program), *map(str, arguments)])
        runpy.run_path(str(program), run_name="__main__")
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    return run


# Pass counts on either side of both families' thresholds.
OF_EIGHT = {10: 8, 20: 7, 30: 6, 40: 0, 50: 1}


LLAMA_SQL = ["Llama-SQL*", "6710", "2248", "25.1%"]


@pytest.fixture
def of_eight(make_row, write_parquet):
    """Writes a parquet and its samples into a folder."""

    def write(folder: Path) -> tuple[Path, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        data = write_parquet(folder / "train.parquet", *(make_row(id) for id in (30, 10, 20, 40, 50)))
        correct = {id: [1] * count + [0] * (8 - count) for id, count in OF_EIGHT.items()}
        return data, write_samples(folder / "0.jsonl", metadata_of(data, n=8), correct)

    return write


@pytest.mark.parametrize(
    "program, options, near_perfect, explored, paper",
    [
        (PROGRAM, [], [30, 10, 20], [40, 50], LLAMA_SQL),
        (PROGRAM, ["--family", "qwen"], [10, 20], [30, 40, 50], ["OmniSQL-32B*", "5169", "3789", "42.3%"]),
        (PROGRAM, ["--family", "qwen", "--threshold", 8], [10], [30, 20, 40, 50], LLAMA_SQL),
        (MATH_PROGRAM, [], [30, 10, 20], [50], ["Llama-Math*", "4599", "1248", "21.3%"]),
        (MATH_PROGRAM, ["--family", "qwen"], [10, 20], [30, 50], ["Qwen2.5-Math*", "7009", "3199", "31.3%"]),
        (MATH_PROGRAM, ["--keep-zero"], [30, 10, 20], [40, 50], ["Llama-Math*", "4599", "1248", "21.3%"]),
    ],
)
def test_the_papers_defaults(tmp_path, of_eight, run_program, program, options, near_perfect, explored, paper):
    """Llama 6 and Qwen 7 of 8; the math recipe drops prompts without a correct sample."""
    data, samples = of_eight(tmp_path)
    lines = run_program(program, "--samples", samples, "--data", data, "--out", tmp_path / "out", *options)
    assert ids(pq.read_table(tmp_path / "out" / "train_correct.parquet")) == near_perfect
    assert ids(pq.read_table(tmp_path / "out" / "train_wrong.parquet")) == explored
    assert paper in lines
    assert [["this", "split", str(len(explored)), str(len(near_perfect))]] == [
        line[:4] for line in lines if line[:1] == ["this"]
    ]


def test_a_familys_threshold_is_of_eight_samples(tmp_path, data, monkeypatch, capsys):
    samples = write_samples(tmp_path / "0.jsonl", metadata_of(data), CORRECT)
    command = [str(PROGRAM), "--samples", str(samples), "--data", str(data), "--n", str(N), "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    assert stop.value.code == 2
    assert "threshold assumes 8 samples per prompt, not 4: pass --threshold" in capsys.readouterr().err


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
        ([4, 3, 4, 2], 1, True, "--threshold 3 gives 3 prompts in D_pef and 1 in D_exp."),
        ([4, 0, 4, 0], 3, False, "--keep-zero puts the 2 without a correct sample into D_exp."),
        ([0, 0, 0, 0], 3, True, "no threshold helps, look at the samples with dph inspect."),
        ([4, 4, 4, 4], 3, True, "D_exp is empty"),
    ],
)  # fmt: skip
def test_an_empty_part_is_an_error_that_names_a_threshold(tmp_path, data, counts, threshold, keep_zero, sentence):
    correct = {id: [1] * count + [0] * (N - count) for id, count in zip((10, 20, 30, 40), counts, strict=True)}
    samples = write_samples(tmp_path / "0.jsonl", metadata_of(data), correct)
    with pytest.raises(UserError) as error:
        split(data, [samples], threshold=threshold, n=N, keep_zero=keep_zero)
    assert sentence in str(error.value)


def test_prompts_without_a_reference_are_counted_apart(tmp_path, data, run_program):
    """40's gold query failed in every sample; one failure of 30's, such as a timeout, is no such thing."""
    samples = write_samples(tmp_path / "0.jsonl", metadata_of(data), CORRECT)
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    for line in lines:
        if line["id"] == 40 or (line["id"], line["sample"]) == (30, 0):
            line["outcome"] = "gold_timeout" if line["sample"] == 0 else "gold_error"
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    parts = split(data, [samples], threshold=3, n=N, keep_zero=True)
    assert parts.gold_failed == [40] and parts.pass_counts == {4: 1, 3: 1, 2: 1} and ids(parts.wrong) == [30, 40]
    lines = run_program(PROGRAM, "--samples", samples, "--data", data, "--out", tmp_path, "--n", N, "--threshold", 3)
    assert ["no", "reference", "1", "D_exp", "#" * 40] in lines
    assert any(
        line[:9] == ["no", "reference:", "the", "gold", "answer", "of", "1", "prompt", "failed"] for line in lines
    )


def test_the_variables_of_the_scripts_are_read(tmp_path, of_eight, run_program, monkeypatch):
    """The road of the launch scripts: SETTINGS, then the folder of the model that MODEL_PATH names, then DATA_DIR."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "math" / "my-model"
    data, _ = of_eight(folder / "generate_data")
    for name, value in {"TRAIN_FILE": data, "SETTINGS": "llama_math", "MODEL_PATH": "/models/My-Model/"}.items():
        monkeypatch.setenv(name, str(value))
    run_program(PROGRAM)
    assert ids(pq.read_table(folder / "train_correct.parquet")) == [30, 10, 20]
    assert ids(pq.read_table(folder / "train_wrong.parquet")) == [50], "math drops prompts that no sample solved"

    monkeypatch.setenv("DATA_DIR", str(folder))
    monkeypatch.setenv("TRAIN_WRONG", str(tmp_path / "wrong.parquet"))
    monkeypatch.setenv("SETTINGS", "qwen_math")
    run_program(PROGRAM)
    assert ids(pq.read_table(tmp_path / "wrong.parquet")) == [30, 50]
    monkeypatch.setenv("SETTINGS", "./mine.sh")
    with pytest.raises(SystemExit):
        run_program(PROGRAM)
    run_program(PROGRAM, "--experiment", "qwen_math")


@pytest.mark.parametrize("model, folder", [("x/Llama-3.1-8B-Instruct", "llama3.1-8b"), ("a/My-Qwen/", "my-qwen")])
def test_the_folder_is_named_as_in_the_scripts(model, folder):
    assert EXPERIMENTS["llama_sql"].folder(model) == Path("data/sql") / folder
    launch = DATA.parent / "scripts" / "lib" / "launch.sh"
    function = f"source <(sed -n '/^name_model/,/^}}/p' {launch})"
    command = ["bash", "-c", f"{function}; MODEL_PATH={model}; name_model sql; echo $MODEL_NAME"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.strip() == folder


def test_wrong_files_are_one_sentence(tmp_path, data, make_row, write_parquet, run_program, capsys):
    good = write_samples(tmp_path / "good.jsonl", metadata_of(data), CORRECT)

    def changed(**metadata) -> Path:
        path = write_samples(tmp_path / f"{[*metadata][0]}.jsonl", metadata_of(data), CORRECT)
        content = json.loads(metadata_path(path).read_text()) | metadata
        metadata_path(path).write_text(json.dumps(content))
        return path

    lists = write_parquet(tmp_path / "lists.parquet", *(make_row(id) | {"id": [id]} for id in CORRECT))
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(data.read_bytes()[:4] + bytes(200) + data.read_bytes()[204:])
    deep = tmp_path / "deep.jsonl"
    deep.write_text("[" * 100_000 + "\n")
    metadata_path(deep).write_bytes(metadata_path(good).read_bytes())
    (tmp_path / "out").mkdir()
    for arguments, sentence in [
        ([changed(n="4")], "n.meta.json: n is '4', which no run writes"),
        ([changed(overlong_ids=None)], "overlong_ids is 'None'"),
        ([changed(data_files={"a": 1})], "data_files is"),
        ([deep], "deep.jsonl line 1 is not a sample record"),
        ([good, "--data", tmp_path], "cannot be read (Is a directory)"),
        ([good, "--out", data], "cannot be written"),
        ([write_samples(tmp_path / "l.jsonl", metadata_of(lists), CORRECT), "--data", lists], "ids of the type list<"),
        ([write_samples(tmp_path / "d.jsonl", metadata_of(damaged), CORRECT), "--data", damaged], "be read as parquet"),
    ]:  # fmt: skip
        options = ["--data", data, "--out", tmp_path / "out", "--n", N, "--threshold", 3]
        with pytest.raises(SystemExit) as stop:
            run_program(PROGRAM, *options, "--samples", *arguments)
        error = capsys.readouterr().err
        assert stop.value.code == 2 and sentence in error and error.count("\n") == 1, error
