"""The command on small files from the project's writers."""

import json

import pytest

from rl.data.inspect.command import main


@pytest.fixture
def inspect(capsys):
    """Runs the command with --json: (exit code, the object)."""

    def run(*arguments) -> tuple[int, dict]:
        code = main(["--json", *map(str, arguments)])
        return code, json.loads(capsys.readouterr().out, parse_constant=pytest.fail)

    return run


@pytest.fixture
def refused(capsys):
    """Runs the command on input that it rejects; its sentence."""

    def run(*arguments) -> str:
        with pytest.raises(SystemExit) as stop:
            main([*map(str, arguments)])
        assert stop.value.code == 2
        printed = capsys.readouterr()
        assert not printed.out and printed.err.count("\n") == 1
        return printed.err

    return run
