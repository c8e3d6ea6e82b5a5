"""The split's command line on real files: the experiments' defaults, the scripts' variables, what is rejected."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from rl.common.errors import UserError
from rl.data.metadata_file import metadata_path
from rl.data.split import failed_refinement
from rl.data.split_command import settings_of
from tests.data.test_split import CORRECT, accs_of, ids, parts_of
from tests.sample_files import N, math_row, write_parquet, write_samples

DATA = Path(__file__).parents[2] / "data"
PROGRAM, MATH_PROGRAM = (DATA / task / "process_data" / "exact_correct_id.py" for task in ("sql", "math"))
# Pass counts on either side of both families' thresholds.
OF_EIGHT = {10: 8, 20: 7, 30: 6, 40: 0, 50: 1}


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
        ([samples("n", metadata={"n": "4"})], "n.meta.json: n is missing or wrong (Input should be a valid integer)"),
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
