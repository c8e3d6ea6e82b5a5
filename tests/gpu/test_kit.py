"""The kit for a machine without a network, as far as it goes without one; what is downloaded is only named here."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.programs import REPOSITORY

PARTS_OF_TRAIN = ("scorer", "client", "engines", "audit", "report")


@pytest.fixture(scope="module")
def make_kit(program):
    return program("make_kit")


def test_its_packages_are_pinned_as_for_gpus(make_kit):
    """Each of them once, with the checksum of what was downloaded; torch is the machine's own, with its CUDA."""
    base, vllm = make_kit.listed("base"), make_kit.listed("vllm")
    packages = base[""] + vllm[""]
    assert len({*packages}) == len(packages) and "torch" not in packages
    assert {"verl", "transformers", "ray", "vllm", "openai"} <= {*packages} and "xgrammar" in vllm["="]
    lock = (REPOSITORY / "requirements.lock").read_text()
    assert all(f"\n{pin} " in lock for pin in make_kit.pinned(*packages))


# What CUDA's image has (README.md of benchmarks/gpu), of the packages that this project names.
IMAGE = {
    *("PyYAML", "aiohttp", "httpx", "huggingface_hub", "Jinja2", "MarkupSafe", "matplotlib", "numpy", "packaging"),
    *("pandas", "prometheus_client", "psutil", "pyarrow", "requests", "safetensors", "scipy", "sympy", "torch", "tqdm"),
    *("uvloop", "wrapt"),
}
# The check runs neither vLLM, nor copies of weights between GPUs, nor databases other than SQLite.
UNUSED = {"vllm", "duckdb", "psycopg", "pytz"}


def test_its_wheels_and_the_image_are_all_that_this_project_names(make_kit):
    """The scorer's httptools was missing on the first GPU."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *(line for extra in ("train", *PARTS_OF_TRAIN) for line in extras[extra])]
    names = {canonicalize_name(re.match(r"[\w.-]+", line)[0]) for line in named} - {"dph-rl"}
    packed = {*make_kit.listed("base")[""]}
    assert not names - {canonicalize_name(name) for name in packed | IMAGE | UNUSED}


def kit_of(make_kit, monkeypatch, capsys, folder: Path, contents: dict, part_bytes: int) -> list[dict]:
    """Make a kit of such contents in folder/.gpu; return its calls."""
    monkeypatch.setattr(make_kit, "contents", lambda: contents)
    monkeypatch.setattr(make_kit, "PART_BYTES", part_bytes)
    monkeypatch.setattr(sys, "argv", ["make_kit.py"])
    monkeypatch.chdir(folder)
    make_kit.main()
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]


def call(found: dict, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """One call of a lent machine: it may have kept nothing but folder/work of the calls before."""
    device = folder / "device"
    shutil.rmtree(device, ignore_errors=True)
    for path in found["carry"]:
        (device / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / path, device / path)
    assert len(found["carry"]) <= 8 and len(found["command"]) <= 2000
    places = {"OUT": str(folder / "out"), "WORK": str(folder / "work"), "PYTHON": sys.executable}
    command = [*found["command"].split(), *arguments]
    return subprocess.run(command, cwd=device, env=os.environ | places | environment, capture_output=True, text=True)


def written(text: str, size: int):
    """The content of an archive: a file of so many bytes that xz cannot make smaller, and a program."""

    def write(folder: Path) -> None:
        (folder / "package").mkdir()
        (folder / "package" / "data").write_bytes(random.Random(text).randbytes(size))
        (folder / "program").write_text(text)
        (folder / "program").chmod(0o755)

    return [text], write


SIZES = {"project": 500, "base": 500, "vllm": 3500, "model": 2500}


def test_parts_are_carried_one_by_one_and_only_once(make_kit, monkeypatch, capsys, tmp_path):
    contents = {name: written(name, size) for name, size in SIZES.items()}
    calls = kit_of(make_kit, monkeypatch, capsys, tmp_path, contents, 1500)
    assert [[path for path in of["carry"] if path.rpartition(".")[2].isdigit()] for of in calls] == [
        [".gpu/project.1", ".gpu/base.1"],
        *([f".gpu/{part}"] for part in ("vllm.1", "vllm.2", "vllm.3", "model.1", "model.2")),
    ]
    assert [of["command"].split()[-1] for of in calls] == 5 * ["unpack"] + ["vllm"]

    # What has arrived is unpacked, and what is missing is named. A damaged part has not arrived.
    def there(of: dict, *lines: str) -> None:
        done = call(of, tmp_path)
        assert (done.returncode, done.stdout.splitlines()[:-1]) == (0, list(lines)), done

    first = ["project: there", "base: there"]
    there(calls[0], *first, "vllm: missing, carry vllm.1 vllm.2 vllm.3", "model: missing, carry model.1 model.2")
    part = tmp_path / ".gpu" / "vllm.1"
    content = part.read_bytes()
    part.write_bytes(content[:-1])
    missing = "vllm: missing, carry vllm.1 vllm.2 vllm.3", "model: missing, carry model.1 model.2"
    there(calls[1], "vllm.1 is damaged.", *first, *missing)
    part.write_bytes(content)
    there(calls[1], *first, "vllm: missing, carry vllm.2 vllm.3", "model: missing, carry model.1 model.2")
    for of in calls[2:5]:
        done = call(of, tmp_path)
    assert done.stdout.splitlines()[2:4] == ["vllm: there", "model: missing, carry model.2"]
    work = tmp_path / "work"
    assert (work / "vllm" / "package" / "data").read_bytes() == random.Random("vllm").randbytes(3500)
    assert os.access(work / "vllm" / "program", os.X_OK)
    needs_more = call(calls[0] | {"command": "bash .gpu/on_device.sh vllm"}, tmp_path)
    assert needs_more.returncode == 2 and "Error: vllm needs more of the kit: model." in needs_more.stderr

    # A kit that is made again has the same parts, except the archive whose content has changed.
    changed = contents | {"project": written("a later commit", 600)}
    shutil.rmtree(tmp_path / ".gpu")
    calls = kit_of(make_kit, monkeypatch, capsys, tmp_path, changed, 1500)
    for archive in ("base", "vllm"):
        (work / archive / "kept").touch()
    there(calls[4], "project: missing, carry project.1", *first[1:], "vllm: there", "model: missing, carry model.2")
    there(calls[0], *first, "vllm: there", "model: missing, carry model.2")
    assert (work / "project" / "program").read_text() == "a later commit"
    assert (work / "base" / "kept").exists() and (work / "vllm" / "kept").exists()


def test_the_project_travels_as_files_with_its_entry_points(make_kit, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    make_kit.make_project(project)
    [entry_points] = project.glob("dph_rl-*.dist-info/entry_points.txt")
    assert "dph = verl.dph.plugin:register" in entry_points.read_text()
    for path in ("verl/dph/config/device/cuda.yaml", "rl/scorer/sql.yaml", "benchmarks/gpu/vllm.txt"):
        assert (project / path).is_file()
    assert not (project / "build").exists()
    assert re.fullmatch("[0-9a-f]{40}\n", (project / "revision").read_text())
