"""--download through huggingface_hub, from a server of the test."""

import hashlib
import http.server
import json
import re
import threading
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from rl.common.fingerprint import file_sha256
from rl.data.benchmarks import MATH_DATASETS
from rl.data.rows import read_rows
from tests.data.prepare.test_math import RECORDS, dapo_row
from tests.sample_files import write_parquet

# Of the Hub's newest version.
COMMIT = "c0" * 20


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server with the addresses of the Hugging Face Hub, and an empty cache: `files` by "REPOSITORY/PATH"."""
    files: dict[str, bytes] = {}
    requested: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            repository, revision, path = re.fullmatch(r"/datasets/(.+?)/resolve/([^/]+)/(.+)", self.path).groups()
            content = files.get(f"{repository}/{path}")
            requested.append(path)
            self.send_response(404 if content is None else 200)
            if content is not None:
                self.send_header("X-Repo-Commit", revision if len(revision) == 40 else COMMIT)
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content or b"")

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # huggingface_hub read HF_ENDPOINT and HF_HOME when it was imported.
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    yield SimpleNamespace(files=files, requested=requested, close=server.server_close)
    server.shutdown()
    server.server_close()


def published(name: str, record: dict, tmp_path) -> bytes:
    """The content of the Hub's file."""
    if MATH_DATASETS[name].hub.file.endswith(".parquet"):
        return write_parquet(tmp_path / "published.parquet", record).read_bytes()
    return (json.dumps(record) + "\n").encode()


def test_the_test_sets(hub, prepare, tmp_path):
    assert [name for name, data in MATH_DATASETS.items() if len(data.hub.revision) != 40] == ["college_math"]
    for name, record, *_ in RECORDS:
        if name == "minerva_math":  # the Hub's copy
            record = {"question": "P", "answer": "4.5e33"}
        file = MATH_DATASETS[name].hub
        hub.files[f"{file.repository}/{file.file}"] = published(name, record, tmp_path)
    done = prepare("math-eval", "--download", "--output", "out")
    assert done.exit_code == 0, done.err
    rows = read_rows([tmp_path / "out" / f"{name}.parquet" for name, *_ in RECORDS])
    assert [row.question["ground_truth"] for row in rows] == [answer for *_, answer in RECORDS]
    for name, *_ in RECORDS:
        file = MATH_DATASETS[name].hub
        manifest = json.loads((tmp_path / "out" / f"{name}.meta.json").read_text())
        [source] = manifest["inputs"]
        assert source.pop("file").endswith(file.file)
        assert source == {
            "sha256": hashlib.sha256(hub.files[f"{file.repository}/{file.file}"]).hexdigest(),
            "repository": file.repository,
            "commit": COMMIT if name == "college_math" else file.revision,
        }
        assert manifest["sha256"] == file_sha256(tmp_path / "out" / f"{name}.parquet") and manifest["rows"] == 1

    # Pinned files are not asked for again, and --input goes before the Hub.
    hub.requested.clear()
    (tmp_path / "aime25.jsonl").write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    done = prepare("math-eval", "--download", "--only", "aime24", "aime25", "--input", ".")
    assert done.exit_code == 0 and not hub.requested, done.err
    assert read_rows([tmp_path / "data" / "math" / "aime25.parquet"])[0].question == {"ground_truth": "2"}


def test_dapo_and_no_network(hub, prepare, tmp_path, monkeypatch):
    file = MATH_DATASETS["math_dapo"].hub
    content = write_parquet(tmp_path / "d.parquet", *[dapo_row("What is $1+1$?", "2")] * 3).read_bytes()
    for offline in (True, False):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        done = prepare("dapo", "--download")
        assert done.exit_code == 2 and done.err.count("\n") == 1, done.err
        assert f"{file.repository}/resolve/{file.revision}/{file.file} elsewhere" in done.err
    hub.files[f"{file.repository}/{file.file}"] = content
    done = prepare("dapo", "--download", "--output", "o.parquet")
    assert "3 rows; 2 of them repeat an earlier one.\nWrote 1 rows" in done.out, done.err
    # What the cache holds is read without a network, and what it lacks is named in one sentence.
    hub.close()
    assert prepare("dapo", "--download", "--output", "o.parquet").exit_code == 0
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    done = prepare("math-eval", "--download", "--only", "aime24", "college_math")
    assert done.exit_code == 2 and "(aime24, college_math)" in done.err and done.err.count("\n") == 1, done.err
