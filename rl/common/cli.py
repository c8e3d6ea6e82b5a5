"""Exit handling of command-line programs: a UserError becomes one sentence on stderr and exit code 2; Ray shuts down.

Hydra programs use the same handler through verl.dph.config.program.run_main. Any other error keeps its traceback and
exit code 1.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rl.common.errors import UserError
from rl.common.signals import Stopped

USER_ERROR_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130

# How a traceback ends on one of our exceptions: all that is left when a Ray actor dies while it is constructed.
_QUALIFIED_USER_ERROR = re.compile(r"^(?:rl|verl\.dph)\.[\w.]+: (.+)$", re.MULTILINE)


def find_user_error(error: BaseException, seen: frozenset[int] = frozenset()) -> str | None:
    """Return the text of the UserError behind `error`, or None.

    Looks through Ray's wrappers (an exception of a remote task or of a remote constructor), exception groups and
    `raise ... from`.

    Args:
        seen: ids of the exceptions above it: one that was raised from its own group is in its own cause.
    """
    if id(error) in seen:
        return None
    seen |= {id(error)}
    if isinstance(error, BaseExceptionGroup):
        sentences = (find_user_error(member, seen) for member in error.exceptions)
        return next((sentence for sentence in sentences if sentence is not None), None)
    # Ray's RayTaskError(UserError) is itself a UserError, but its text is the remote traceback.
    behind = getattr(error, "cause", None) or error.__cause__
    if isinstance(behind, BaseException):
        sentence = find_user_error(behind, seen)
        if sentence is not None:
            return sentence
    if isinstance(error, UserError):
        return str(error)
    quoted = _QUALIFIED_USER_ERROR.findall(str(error)) if "ray" in type(error).__module__ else []
    return quoted[-1] if quoted else None


@contextmanager
def user_errors_exit(resumes: bool = False) -> Iterator[None]:
    """Exit with one sentence on stderr and code 2 when the block raises a UserError.

    Args:
        resumes: the same command resumes what Ctrl-C or SIGTERM ended, and the sentence says so.
    """
    advice = ": re-run the same command to resume." if resumes else "."
    try:
        yield
    except KeyboardInterrupt:
        _say(f"Interrupted{advice}")
        sys.exit(INTERRUPTED_EXIT_CODE)
    except Stopped as stopped:
        _say(f"{str(stopped).removesuffix('.')}{advice}")
        sys.exit(stopped.exit_code)
    except Exception as error:
        sentence = find_user_error(error) or _missing_setting(error)
        if sentence is None:
            raise
        _say(f"Error: {sentence}")
        sys.exit(USER_ERROR_EXIT_CODE)
    finally:
        _shutdown_ray()


def _say(sentence: str) -> None:
    tqdm = sys.modules.get("tqdm")
    # A bar that the exception left open has not ended its line.
    if tqdm is not None and tqdm.tqdm._instances:
        sys.stderr.write("\n")
    sys.stderr.write(f"{sentence}\n")


def _missing_setting(error: Exception) -> str | None:
    # A program that never imported OmegaConf has no such error: the scorer installs without it.
    omegaconf = sys.modules.get("omegaconf.errors")
    if omegaconf is None or not isinstance(error, omegaconf.MissingMandatoryValue):
        return None
    return f"The setting {error.full_key} has no value; pass {error.full_key}=VALUE."


def _shutdown_ray() -> None:
    # A program that never imported Ray has nothing to shut down.
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()
