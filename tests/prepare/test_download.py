"""--download through huggingface_hub, whose Hub is a server of the test."""

import hashlib
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl.data.benchmarks import BENCHMARKS, HUB_FILES, MATH
from rl.data.rows import read_rows
from tests.prepare.conftest import COMMIT, DATA
from tests.prepare.test_math import DAPO_SCHEMA, RECORDS, dapo_row, write_parquet


@pytest.fixture
def run(hub, tmp_path):
    """Runs a program of data/math in a process: huggingface_hub reads its environment once."""

    def run(program: str, *arguments, **variables) -> subprocess.CompletedProcess:
        command = [sys.executable, str(DATA / "math" / program), *map(str, arguments)]
        environment = hub.environment | variables
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    return run


def published(name: str, record: dict, tmp_path) -> bytes:
    """The content of the Hub's file."""
    if HUB_FILES[name].file.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist([record]), tmp_path / "published.parquet")
        return (tmp_path / "published.parquet").read_bytes()
    return (json.dumps(record) + "\n").encode()


def test_every_math_set_of_the_paper_has_a_file_and_all_but_one_a_commit():
    assert {"math_dapo"} | {name for name, data in BENCHMARKS.items() if data.kind == MATH} <= HUB_FILES.keys()
    assert [name for name, file in HUB_FILES.items() if len(file.revision) != 40] == ["college_math"]


def test_the_test_sets(hub, run, tmp_path):
    for name, record, *_ in RECORDS:
        if name == "minerva_math":  # the Hub's copy
            record = {"question": "P", "answer": "4.5e33"}
        hub.files[f"{HUB_FILES[name].repository}/{HUB_FILES[name].file}"] = published(name, record, tmp_path)
    done = run("prepare_eval.py", "--download", "--output", "out")
    assert done.returncode == 0, done.stderr
    rows = read_rows([tmp_path / "out" / f"{name}.parquet" for name, *_ in RECORDS])
    assert [row.question["ground_truth"] for row in rows] == [answer for *_, answer in RECORDS]
    for name, *_ in RECORDS:
        file = HUB_FILES[name]
        manifest = json.loads((tmp_path / "out" / f"{name}.meta.json").read_text())
        content = hub.files[f"{file.repository}/{file.file}"]
        [source] = manifest["inputs"]
        assert source.pop("file").endswith(file.file)
        assert source == {
            "sha256": hashlib.sha256(content).hexdigest(),
            "repository": file.repository,
            "commit": COMMIT if name == "college_math" else file.revision,
        }
        prepared = (tmp_path / "out" / f"{name}.parquet").read_bytes()
        assert manifest["sha256"] == hashlib.sha256(prepared).hexdigest() and manifest["rows"] == 1

    # Pinned files are not asked for again, and --file goes before the Hub.
    hub.requested.clear()
    (tmp_path / "mine.jsonl").write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    done = run("prepare_eval.py", "--download", "--only", "aime24", "aime25", "--file", "aime25=mine.jsonl")
    assert done.returncode == 0 and not [path for path in hub.requested if "/datasets/" in path], done.stderr
    assert read_rows([tmp_path / "data" / "math" / "aime25.parquet"])[0].question == {"ground_truth": "2"}


def test_dapo_and_no_network(hub, run, tmp_path):
    file = HUB_FILES["math_dapo"]
    content = write_parquet(tmp_path / "d.parquet", [dapo_row("What is $1+1$?", "2")] * 3, DAPO_SCHEMA).read_bytes()
    for variables, reason in [({"HF_HUB_OFFLINE": "1"}, "offline mode"), ({}, "404")]:
        done = run("prepare_dapo.py", "--download", **variables)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and reason in done.stderr, done.stderr
        place = f"{file.repository}/resolve/{file.revision}/{file.file} (math_dapo)"
        assert place in done.stderr and done.stderr.endswith("and pass it with --input.\n")
    hub.files[f"{file.repository}/{file.file}"] = content
    done = run("prepare_dapo.py", "--download", "--output", "o.parquet")
    assert done.returncode == 0 and "3 rows, of which 2 repeat an earlier one.\nWrote 1 rows" in done.stdout, (
        done.stderr
    )
    # What the cache holds is read without a network, and what it lacks is named in one sentence.
    hub.close()
    assert run("prepare_dapo.py", "--download", "--output", "o.parquet").returncode == 0
    done = run("prepare_eval.py", "--download", "--only", "aime24", "college_math")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "Connection refused" in done.stderr and "(aime24)" in done.stderr and "(college_math)" in done.stderr
    assert "name each after its test set, such as aime24.parquet, in a folder for --input" in done.stderr
    assert "gsm8k" not in done.stderr
