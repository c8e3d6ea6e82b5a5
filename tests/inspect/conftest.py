"""Small files of every kind, made by the project's own writers, and the command on them."""

import json
from pathlib import Path

import pytest

from rl.data.inspect.command import main


@pytest.fixture(scope="session")
def write_store():
    """Writes (prompt, response) token ids by id; every token has the log-prob -0.5, the next tokens .5, .25 and .25."""

    # Inspecting a store loads verl; inspecting anything else does not.
    import torch

    from verl.dph.pef.store import Row, Store

    def write(path: Path, rows: dict[int, tuple[list[int], list[int]]], top_k: bool = False, **meta) -> Path:
        def top(tokens: int) -> tuple:
            if not top_k:
                return ()
            log_probs = torch.tensor([0.5, 0.25]).log().expand(tokens, 2)
            return torch.tensor([3, 4]).expand(tokens, 2), log_probs, torch.full((tokens,), 0.25).log()

        made = [
            Row(id, torch.tensor(prompt), torch.tensor(response), torch.full((tokens,), -0.5), *top(tokens))
            for id, (prompt, response) in rows.items()
            for tokens in [len(response)]
        ]
        known = {"model": "m", "model_hash": "a", "tokenizer_hash": "b", "temperature": 1.0, "max_response_length": 4}
        Store(known | meta, made).save(str(path))
        return path

    return write


@pytest.fixture
def inspect(capsys):
    """Runs the command with --json: (exit code, the object)."""

    def run(*arguments) -> tuple[int, dict]:
        code = main(["--json", *map(str, arguments)])
        return code, json.loads(capsys.readouterr().out, parse_constant=pytest.fail)

    return run


@pytest.fixture
def refused(capsys):
    """Runs the command on what it refuses: the sentence."""

    def run(*arguments) -> str:
        with pytest.raises(SystemExit) as stop:
            main([*map(str, arguments)])
        assert stop.value.code == 2
        printed = capsys.readouterr()
        assert not printed.out and printed.err.count("\n") == 1
        return printed.err

    return run
