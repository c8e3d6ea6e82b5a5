"""Exit handling of command-line programs: a UserError becomes one sentence on stderr and exit code 2; Ray shuts down.

Hydra programs use the same handler through verl.dph.config.program.run_main. Any other error keeps its traceback and
exit code 1.
"""

import argparse
import os
import re
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rl.common.errors import UserError
from rl.common.signals import Stopped

USER_ERROR_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130

# The last line of a traceback of our exceptions. Nothing else is left when a Ray actor dies in its constructor.
_QUALIFIED_USER_ERROR = re.compile(r"^(?:rl|verl\.dph)\.[\w.]+: (.+)$", re.MULTILINE)


def find_user_error(error: BaseException, seen: frozenset[int] = frozenset()) -> str | None:
    """Return the text of the UserError behind `error`, or None.

    Looks through Ray's wrappers (an exception of a remote task or of a remote constructor), exception groups and
    `raise ... from`.

    Args:
        seen: ids of the exceptions above it; an exception that was raised from its own group is in its own cause.
    """
    if id(error) in seen:
        return None
    seen |= {id(error)}
    if isinstance(error, BaseExceptionGroup):
        sentences = (find_user_error(member, seen) for member in error.exceptions)
        return next((sentence for sentence in sentences if sentence is not None), None)
    # Ray's RayTaskError(UserError) is itself a UserError, but its text is the remote traceback.
    of_ray = type(error).__module__.partition(".")[0] == "ray"
    if isinstance(error, UserError) and not of_ray:
        return str(error)  # its cause says less: it may name neither file nor row
    behind = getattr(error, "cause", None) or error.__cause__
    if isinstance(behind, BaseException):
        sentence = find_user_error(behind, seen)
        if sentence is not None:
            return sentence
    quoted = _QUALIFIED_USER_ERROR.findall(str(error)) if of_ray else []
    return quoted[-1] if quoted else None


@contextmanager
def user_errors_exit(resumes: bool = False) -> Iterator[None]:
    """Exit with one sentence on stderr and code 2 when the block raises a UserError.

    Args:
        resumes: after Ctrl-C or SIGTERM the same command resumes the work, and the sentence says so.
    """
    advice = ": re-run the same command to resume." if resumes else "."
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"Interrupted{advice}\n")
        sys.exit(INTERRUPTED_EXIT_CODE)
    except Stopped as stopped:
        sys.stderr.write(f"{str(stopped).removesuffix('.')}{advice}\n")
        sys.exit(stopped.exit_code)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _is_broken(sys.stdout):  # its reader, such as head, has ended
            sys.exit(128 + signal.SIGPIPE)
        if (sentence := find_user_error(error)) is None:
            raise
        sys.stderr.write(f"Error: {sentence}\n")
        sys.exit(USER_ERROR_EXIT_CODE)
    finally:
        shutdown_ray()
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at its end


def _is_broken(stream: TextIO) -> bool:
    """Whether nobody can read what is written to it."""
    poll = select.poll()
    poll.register(stream, 0)  # errors alone
    return bool(poll.poll(0))


def shutdown_ray() -> None:
    """Shut down Ray if this process runs it."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()


def existing_part(path: Path) -> Path:
    """The longest part of a path that exists."""
    # os.path, because Path.exists raises where the user may not look.
    return next(part for part in (path, *path.absolute().parents) if os.path.exists(part))


def output_folder(text: str) -> Path:
    """The `type` of an option that names a folder to write: whatever exists of it must be folders."""
    path = Path(text).expanduser()
    if not text:
        raise argparse.ArgumentTypeError("it is empty: name a folder.")
    exists = existing_part(path)
    if not os.path.isdir(exists):
        raise argparse.ArgumentTypeError(f"{exists} is a file: name a folder.")
    if not os.access(exists, os.W_OK):
        raise argparse.ArgumentTypeError(f"{exists} cannot be written: name another folder, or make it writable.")
    return path


def as_shown(path: Path) -> str:
    """An absolute path in a command or message: relative if it is inside the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def output_file(text: str) -> Path:
    """The `type` of an option that names a file to write, in an output_folder."""
    path = Path(text).expanduser()
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{path} is a folder: name a file.")
    output_folder(str(path.parent))
    return path
