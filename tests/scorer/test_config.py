"""The server's settings: each has a meaning, and those that decide verdicts change their hash."""

from pathlib import Path

import pytest

from rl.scorer.config import (
    WITHOUT_EFFECT_ON_VERDICTS,
    SqlSettings,
    TaskSettings,
)
from rl.scorer.config_file import load_settings


def test_the_verdict_sha256_differs_with_what_decides_alone(tmp_path: Path) -> None:
    function, other = tmp_path / "mine.py", tmp_path / "elsewhere"
    other.mkdir()
    function.write_text("def judge(answer, truth):\n    return 1.0\n")
    config = tmp_path / "scorer.yaml"

    def sha256(sql: str = "", math: str = "", folder: Path = tmp_path) -> str:
        config.write_text(
            f"Scorers: {{A: {{class_name: SqlRewardModel, database_path: {folder}{sql}}}, "
            f"B: {{class_name: MathRewardModel{math}}}, "
            f"C: {{class_name: PythonRewardModel, task: mine, function: '{function}:judge'}}}}"
        )
        return load_settings(config).verdict_sha256

    first = sha256()
    assert first == sha256(folder=other) == sha256(", num_instances: 3, gold_cache_bytes: 0", ", answer_cache_bytes: 0")
    assert all(name in SqlSettings.model_fields | TaskSettings.model_fields for name in WITHOUT_EFFECT_ON_VERDICTS)
    different = [sha256(", order_check: false"), sha256(", prediction_seconds: 2"), sha256("", ", max_answer_chars: 5")]
    function.write_text("import helper\ndef judge(answer, truth):\n    return helper.equal(answer, truth)\n")
    different.append(sha256())
    # Modules beside it that it imports, and what these import.
    for name, text in (
        ("helper", "from words import plain\n"),
        ("words", "plain = str\n"),
        ("words", "plain = repr\n"),
    ):
        (tmp_path / f"{name}.py").write_text(text)
        different.append(sha256())
    (tmp_path / "unrelated.py").write_text("plain = str\n")
    assert sha256() == different[-1] and len({first, *different}) == 8
    (tmp_path / "words.py").write_text("from package import plain\n")
    (tmp_path / "package").mkdir()
    for text in ("plain = str\n", "plain = repr\n"):
        (tmp_path / "package" / "__init__.py").write_text(text)
        different.append(sha256())
    assert len({first, *different}) == 10


def test_what_a_worker_may_do(tmp_path: Path) -> None:
    (tmp_path / "reward.py").touch()
    named = {"class_name": "PythonRewardModel", "task": "own", "function": f"{tmp_path}/reward.py:score"}
    # YAML 1.1 reads an `off` without quotes as false.
    assert TaskSettings.model_validate(named | {"sandbox": False}).sandbox == "off"
    allow = ["network", "subprocess", f"write:{tmp_path}"]
    assert TaskSettings.model_validate(named | {"allow": allow}).allow == tuple(allow)
    for wrong, why in {
        "everything": "has 'everything', which is not one of network, subprocess and write:PATH",
        "write:": "has 'write:', which is not one of network, subprocess and write:PATH",
        "write:/none/such": "has write:/none/such, but /none/such does not exist",
    }.items():
        with pytest.raises(ValueError, match=why):
            TaskSettings.model_validate(named | {"allow": [wrong]})
