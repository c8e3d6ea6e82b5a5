"""Check a machine for `make install-gpu` before anything is downloaded.

It uses the standard library only: `dph doctor` checks the environment that is installed after it.

    python3.12 packaging/gpu/check_machine.py .venv-gpu

If something is missing that the installation or every run needs, exit with 2 and print one sentence for each. Things
that a login node may lack are warnings. ANY_DRIVER=1 accepts a driver that is too old (docs/howto/install.md).
"""

import ctypes
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

PYTHON = (3, 12)  # of requirements.lock
CUDA = (13, 0)  # of torch 2.11.0 and vLLM 0.24.0
GLIBC = (2, 31)  # of llguidance's wheel, which vLLM imports; torch and vLLM ask for 2.28
FREE_GB = 16  # the environment and its largest downloads


def errors(venv: Path) -> Iterator[str]:
    """Yield a sentence for each thing that prevents the installation."""
    if sys.version_info[:2] != PYTHON:
        yield (
            f"{sys.executable} is Python {platform.python_version()} and requirements.lock is for 3.12: "
            "name one with make install-gpu PYTHON=..."
        )
    if (system := (platform.system(), platform.machine())) != ("Linux", "x86_64"):
        yield f"requirements.lock is for Linux on x86_64, and this is {' on '.join(system)}: resolve requirements.txt."
    if (glibc := glibc_version()) and glibc < GLIBC:
        yield f"glibc here is {_dotted(glibc)} and the wheels need {_dotted(GLIBC)}: use docker/Dockerfile."
    free = shutil.disk_usage(_existing(venv)).free / 1e9
    if not (venv / ".installed").exists() and free < FREE_GB:
        yield f"{venv.absolute()} has {free:.0f} GB free and needs {FREE_GB}: name another place with VENV_GPU=..."
    cuda = driver_cuda()
    if cuda and cuda < CUDA and not os.environ.get("ANY_DRIVER"):
        yield (
            f"the NVIDIA driver here runs CUDA up to {_dotted(cuda)} and torch 2.11.0 needs {_dotted(CUDA)}: update it "
            "to R580 or later, or, for a data-center GPU, put cuda-compat-13-0 on LD_LIBRARY_PATH; ANY_DRIVER=1 "
            "installs anyway."
        )


def warnings() -> Iterator[str]:
    """Yield a sentence for each missing thing that training needs and the installation does not."""
    if driver_cuda() is None:
        yield "no NVIDIA driver was found; where training runs it must be R580 or later, or have cuda-compat-13-0."
    if not any(map(shutil.which, [os.environ.get("CC", "gcc"), "clang"])):
        yield "no C compiler was found; Triton compiles kernels at run time: install gcc where training runs."
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        yield f"{headers} has no Python.h, which Triton compiles against at run time: install python3.12-dev."


def driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA version that the driver's libcuda runs; None without libcuda.

    torch loads the same library, so a cuda-compat on LD_LIBRARY_PATH counts. The question needs no GPU.
    """
    try:
        libcuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    if libcuda.cuDriverGetVersion(ctypes.byref(version)):
        return None
    return version.value // 1000, version.value % 1000 // 10


def glibc_version() -> tuple[int, ...] | None:
    """glibc's version; None if the C library is another one."""
    name, version = platform.libc_ver()
    return tuple(map(int, version.split(".")[:2])) if name == "glibc" else None


def _existing(path: Path) -> Path:
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def main(venv: str) -> int:
    for sentence in warnings():
        print(f"Warning: {sentence}", file=sys.stderr)
    found = list(errors(Path(venv)))
    for sentence in found:
        print(f"Error: {sentence}", file=sys.stderr)
    return 2 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
