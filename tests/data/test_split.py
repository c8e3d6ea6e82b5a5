"""The split on real files, and its command line: the experiments' defaults, variables, what is rejected."""

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
from rl.data.metadata_file import metadata_path
from rl.data.sample_file import read_metadata
from rl.data.split import MODEL_HASH, Split, failed_refinement, model_of, split, write_split
from rl.data.split_command import settings_of
from tests.sample_files import N, math_row, write_parquet, write_samples

CORRECT = {10: [1, 1, 1, 1], 20: [0, 1, 1, 1], 30: [0, 1, 1, 0], 40: [0, 0, 0, 0]}
DATA = Path(__file__).parents[2] / "data"
PROGRAM, MATH_PROGRAM = (DATA / task / "process_data" / "exact_correct_id.py" for task in ("sql", "math"))
# Pass counts on either side of both families' thresholds.
OF_EIGHT = {10: 8, 20: 7, 30: 6, 40: 0, 50: 1}


@pytest.fixture
def data(tmp_path) -> Path:
    """Rows that are not in the order of their ids."""
    return write_parquet(tmp_path / "train.parquet", *(math_row(id) for id in (30, 10, 20, 40)))


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


@pytest.fixture
def of_eight():
    """Writes a parquet and 8 samples of each row into a folder."""

    def write(folder: Path) -> tuple[Path, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        data = write_parquet(folder / "train.parquet", *(math_row(id) for id in (30, 10, 20, 40, 50)))
        return data, write_samples(folder / "0.jsonl", data, accs_of(OF_EIGHT, 8), n=8)

    return write


@pytest.fixture
def run_program(monkeypatch, capsys):
    """Runs a splitter program: the words of each line that it prints, or its sentence if it exits with code 2."""

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


def test_prompts_without_a_reference_are_counted_apart(tmp_path, data, run_program):
    """40's gold query failed in every sample; 30's failed once, which may be a timeout, and is judged."""
    samples = write_samples(tmp_path / "0.jsonl", data, CORRECT)
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    for line in lines:
        if line["id"] == 40 or (line["id"], line["sample"]) == (30, 0):
            line["outcome"] = "gold_timeout" if line["sample"] == 0 else "gold_error"
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    parts = parts_of(data, samples)
    assert (parts.gold_failed, parts.gold_failed_at_times) == ([40], [30])
    assert parts.pass_counts == {4: 1, 3: 1, 2: 1} and ids(parts.wrong) == [30, 40]
    lines = run_program(PROGRAM, "--samples", samples, "--data", data, "--out", tmp_path, "--n", N, "--threshold", 3)
    assert ["no", "reference", "1", "D_exp", "#" * 40] in lines


LLAMA_SQL, LLAMA_MATH = ["Llama-SQL*", "6710", "2248", "25.1%"], ["Llama-Math*", "4599", "1248", "21.3%"]


@pytest.mark.parametrize(
    "program, options, near_perfect, explored, paper",
    [
        (PROGRAM, [], [30, 10, 20], [40, 50], LLAMA_SQL),
        (PROGRAM, ["--experiment", "omnisql_sql"], [10, 20], [30, 40, 50], ["OmniSQL-32B*", "5169", "3789", "42.3%"]),
        (PROGRAM, ["--threshold", 8, "--drop-zero"], [10], [30, 20, 50], ["0", "1", "dropped", "#" * 40]),
        (MATH_PROGRAM, [], [10, 20], [30, 50], ["Qwen2.5-Math*", "7009", "3199", "31.3%"]),
        (MATH_PROGRAM, ["--experiment", "llama_math", "--keep-zero"], [30, 10, 20], [40, 50], LLAMA_MATH),
    ],
)
def test_the_papers_defaults(tmp_path, of_eight, run_program, program, options, near_perfect, explored, paper):
    """Llama 6 and Qwen 7 of 8; the math recipe drops prompts without a correct sample."""
    data, samples = of_eight(tmp_path)
    lines = run_program(program, "--samples", samples, "--data", data, "--out", tmp_path / "out", *options)
    assert ids(tmp_path / "out" / "train_correct.parquet") == near_perfect
    assert ids(tmp_path / "out" / "train_wrong.parquet") == explored
    assert paper in lines
    experiment = options[1] if "--experiment" in options else "qwen_math" if program == MATH_PROGRAM else ""
    named = [f"launch.train_{part}={tmp_path / 'out' / f'train_{part}.parquet'}" for part in ("correct", "wrong")]
    next_command = ["Next:", "dph", "store", *named, *([f"experiment={experiment}"] if experiment else [])]
    assert lines[-1] == next_command or (lines[-1][0], options[:2]) == ("Wrote", ["--threshold", 8])
    sizes = ["this", "split", str(len(explored)), str(len(near_perfect))]
    assert [line[:4] for line in lines if line[:1] == ["this"]] == [sizes]


def test_the_variables_of_the_scripts_are_read(tmp_path, of_eight, run_program, monkeypatch):
    """Also of a home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    of_eight(tmp_path / "home" / "d" / "generate_data")
    for name, value in {"TRAIN_FILE": "~/d/generate_data/train.parquet", "DATA_DIR": "~/d"}.items():
        monkeypatch.setenv(name, value)
    run_program(PROGRAM, "--experiment", "llama_math")
    assert ids(tmp_path / "home" / "d" / "train_correct.parquet") == [30, 10, 20]
    assert ids(tmp_path / "home" / "d" / "train_wrong.parquet") == [50], "math drops prompts that no sample solved"
    assert [entry.name for entry in tmp_path.iterdir()] == ["home"]
    assert "The experiment 'nothing' does not exist" in run_program(PROGRAM, "--experiment", "nothing")


def test_a_second_split_forgets_what_a_store_found_of_the_first(tmp_path, of_eight, run_program):
    data, samples = of_eight(tmp_path)
    given = ("--data", data, "--samples", samples, "--out", tmp_path)
    run_program(PROGRAM, *given)
    failed = failed_refinement(tmp_path / "train_correct.parquet")
    failed.write_bytes(b"")
    run_program(PROGRAM, *given)
    assert failed.name == "train_correct.failed.parquet" and not failed.exists()


def test_an_experiment_of_ones_own_is_read(tmp_path):
    path = tmp_path / "experiment" / "mine.yaml"
    path.parent.mkdir()
    head = "# @package _global_\ndefaults: [qwen_math, _self_]\n"
    path.write_text(f"{head}launch: {{near_perfect: 5}}\n")
    launch = settings_of(str(path)).launch
    assert (launch.near_perfect, launch.keep_zero, launch.paper.name) == (5, False, "Qwen2.5-Math")
    path.rename(moved := tmp_path / "mine.yaml")
    with pytest.raises(UserError, match=f"{moved}' is not a YAML file in a folder named experiment: give demo"):
        settings_of(str(moved))


def test_wrong_files_and_settings_are_one_sentence(tmp_path, data, run_program):
    def samples(name: str, correct=CORRECT, of: Path = data, metadata: dict | None = None) -> Path:
        path = write_samples(tmp_path / f"{name}.jsonl", of, correct)
        content = json.loads(metadata_path(path).read_text()) | (metadata or {})
        metadata_path(path).write_text(json.dumps(content))
        return path

    good = samples("good")
    changed = write_parquet(tmp_path / "changed.parquet", *(math_row(id, data_source="aime24") for id in CORRECT))
    wrong = write_parquet(tmp_path / "train_wrong.parquet", *map(math_row, CORRECT))
    blocked = tmp_path / "blocked"
    (blocked / "train_correct.parquet" / "mine").mkdir(parents=True)
    of_wrong = samples("w", of=wrong)
    without_30 = {id: accs for id, accs in CORRECT.items() if id != 30}
    for arguments, sentence in [
        ([samples("few", {**CORRECT, 20: [1, 1]})], "id 20 has 2 samples, not 4: re-run the sampler"),
        ([samples("absent", without_30)], "have no samples (the first is id 30)"),
        ([samples("surplus", {**CORRECT, 99: [1] * 4})], "lacks (the first is 99)"),
        ([samples("n", metadata={"n": "4"})], "n.meta.json: n is wrong (Input should be a valid integer)"),
        ([good, "--threshold", 5], "Error: The threshold is 5 of n = 4 samples: give one from 1 to n.\n"),
        ([good, "--threshold", 1, "--drop-zero"], "D_exp is empty at the threshold 1"),
        ([good, "--n", 8], "drawn with n = 4 samples per prompt, not 8: pass --n 4"),
        ([good, "--data", changed], "changed.parquet is not the file that"),
        ([good, "--out", blocked], "cannot be written"),
        ([of_wrong, "--data", wrong, "--out", wrong.parent], "train_wrong.parquet, which it reads: give another"),
    ]:
        options = ["--data", data, "--out", tmp_path / "out", "--n", N, "--threshold", 3]
        assert sentence in run_program(PROGRAM, *options, "--samples", *arguments), arguments
    assert not (tmp_path / "out").exists()
    of_four = run_program(PROGRAM, "--data", data, "--samples", good, "--n", N)
    assert "threshold assumes 8 samples per prompt, not 4: pass --threshold" in of_four
