"""What the server checks before it starts workers: the sandbox (engines: sql/test_engines.py)."""

from pathlib import Path

import pytest

from rl.common.errors import UserError
from rl.scorer.checks import check_scorers
from rl.scorer.config import Settings
from rl.scorer.metrics import Metrics
from rl.scorer.options import main
from rl.scorer.sandbox import confine
from rl.scorer.scorers import Scorers


def test_a_kernel_without_them_is_one_warning_a_metric_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def settings(sandbox: str) -> Settings:
        return Settings.model_validate({"Scorers": {"Scorer1": {"class_name": "MathRewardModel", "sandbox": sandbox}}})

    def metric(sandbox: str) -> list[str]:
        beginning = 'scorer_sandbox{kind="math",mechanism='
        lines = Metrics(Scorers(settings(sandbox))).text().decode().splitlines()
        return [line.removeprefix(beginning) for line in lines if line.startswith(beginning)]

    for has, lacking in (((), "Landlock and Seccomp"), (("landlock",), "Seccomp"), (("seccomp",), "Landlock")):
        monkeypatch.setattr(confine, "offered", lambda has=has: has)
        assert metric("auto") == [f'"{name}"}} {float(name in has)}' for name in confine.MECHANISMS]
        check_scorers(settings("auto").Scorers.items())
        said = capsys.readouterr().err
        assert said.startswith(f"Warning: the kernel lacks {lacking}, so") and said.count("\n") == 1
        check_scorers(settings("off").Scorers.items())
        assert capsys.readouterr().err == ""
        with pytest.raises(UserError, match=f"Scorer1.sandbox is 'required', but the kernel lacks {lacking} "):
            check_scorers(settings("required").Scorers.items())
    # The server asks before it starts anything.
    section = "{class_name: MathRewardModel, sandbox: required}"
    (tmp_path / "a.yaml").write_text(f"Scorers: {{Scorer1: {section}}}")
    with pytest.raises(SystemExit, match="2"):
        main(["-c", str(tmp_path / "a.yaml"), "--port", "0"])
    assert "sandbox is 'required'" in capsys.readouterr().err
    monkeypatch.setattr(confine, "offered", lambda: confine.MECHANISMS)
    assert metric("off") == ['"landlock"} 0.0', '"seccomp"} 0.0']
    check_scorers(settings("required").Scorers.items())
    assert capsys.readouterr().err == ""
