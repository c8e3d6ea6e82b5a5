"""Exit codes and messages of programs; errors come as Ray wraps them in its processes."""

import argparse
import asyncio
import signal
from pathlib import Path

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

from rl.common.cli import find_user_error, output_file, output_folder, user_errors_exit
from rl.common.errors import UserError
from rl.common.signals import Stopped, run_stoppable

SENTENCE = "The setting x is 3; set it to 4."


def in_a_task(error: Exception) -> RayTaskError:
    return RayTaskError("fail", f"Traceback ...\nrl.common.errors.UserError: {error}\n", error)


def naming_the_row(error: Exception) -> Exception:
    named = UserError(SENTENCE)
    named.__cause__ = error
    return named


def in_its_own_cause(error: Exception) -> Exception:
    error.__cause__ = ExceptionGroup("unhandled errors in a TaskGroup", [error])
    return error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (in_its_own_cause(UserError(SENTENCE)), SENTENCE),
        (in_its_own_cause(ValueError("ours")), None),
        (UserError(SENTENCE), SENTENCE),
        (naming_the_row(UserError("not a text: correct the row.")), SENTENCE),
        (in_a_task(naming_the_row(UserError("x"))).as_instanceof_cause(), SENTENCE),
        (ExceptionGroup("tasks", [ValueError("x"), UserError(SENTENCE)]), SENTENCE),
        (in_a_task(in_a_task(UserError(SENTENCE)).as_instanceof_cause()), SENTENCE),
        (ActorDiedError(in_a_task(UserError(SENTENCE))), SENTENCE),
        (ValueError("rl.common.errors.UserError: not from Ray"), None),
    ],
)
def test_a_user_error_is_one_sentence_and_exit_code_2_wherever_it_is_raised(error, sentence, capsys):
    assert find_user_error(error) == sentence
    wrapped = RuntimeError("outer")
    wrapped.__cause__ = error
    assert find_user_error(wrapped) == sentence
    with pytest.raises(SystemExit if sentence else ValueError) as stop, user_errors_exit():
        raise error
    if sentence:
        assert stop.value.code == 2 and capsys.readouterr().err == f"Error: {sentence}\n"


def test_an_interrupt_ends_with_130(capsys):
    with pytest.raises(SystemExit) as stop, user_errors_exit():
        raise KeyboardInterrupt
    assert stop.value.code == 130 and capsys.readouterr().err == "Interrupted.\n"
    for error, start in ((KeyboardInterrupt(), "Interrupted"), (Stopped(signal.SIGTERM), "Stopped by SIGTERM")):
        with pytest.raises(SystemExit), user_errors_exit(resumes=True):
            raise error
        assert capsys.readouterr().err == f"{start}: re-run the same command to resume.\n"


@pytest.mark.parametrize("on_interrupt", [signal.default_int_handler, signal.SIG_IGN])
def test_sigterm_stops_a_coroutine(on_interrupt):
    """A shell ignores SIGINT in what it starts with `&`."""
    before, cleaned, on_sigterm = signal.signal(signal.SIGINT, on_interrupt), [], signal.getsignal(signal.SIGTERM)

    async def work():
        try:
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    try:
        with pytest.raises(Stopped, match="SIGTERM"):
            run_stoppable(work())
    finally:
        signal.signal(signal.SIGINT, before)
    assert cleaned and signal.getsignal(signal.SIGTERM) == on_sigterm


def test_an_output_is_a_folder_that_exists_or_can_be_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path))  # bash leaves --output=~/x as it is
    assert output_folder("new/one") == Path("new/one") and output_folder("~/x") == output_file("~/x") == tmp_path / "x"
    for text in ("file", "file/below/it", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="name a folder"):
            output_folder(text)
    for text in ("file/below", "", str(tmp_path)):
        with pytest.raises(argparse.ArgumentTypeError):
            output_file(text)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(argparse.ArgumentTypeError, match="cannot be written: name another folder, or make it writabl"):
        output_folder("new/one")
