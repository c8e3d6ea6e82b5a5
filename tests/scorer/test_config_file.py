"""The server's file and options: defaults, the released server's file, and one sentence for what is wrong."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rl.scorer.config import Settings
from rl.scorer.config_file import load_settings
from rl.scorer.options import main
from tests.scorer.conftest import SHIPPED_SETTINGS


def test_the_shipped_settings_are_the_defaults(tmp_path: Path) -> None:
    least, databases = tmp_path / "least.yaml", {"database_path": tmp_path}
    for name, class_name, server in (
        ("sql", "SqlDetailRewardModel", {}),
        ("math", "MathRewardModel", {"port": 5002}),
    ):
        least.write_text(f"ScorerServer: {server}\nScorers: {{Scorer1: {{class_name: {class_name}}}}}")
        assert load_settings(SHIPPED_SETTINGS.with_name(f"{name}.yaml"), sql=databases) == load_settings(
            least, sql=databases
        )
    assert yaml.safe_load(SHIPPED_SETTINGS.read_text())["Scorers"]["Scorer1"]["database_path"] == "/cache/"


SQL = "Scorers: {Scorer1: {class_name: SqlRewardModel, database_path: "
MATH = "Scorers: {Scorer1: {class_name: MathRewardModel"
WRONG = [
    (SQL + "/none/such}}", "Scorers.Scorer1.database_path = '/none/such'"),
    ("Scorers: {Scorer1: {class_name: SqlRewardModel}}", "Scorers.Scorer1.database_path: is missing (or pass --datab"),
    ("Scorers: {Scorer1: {class_name: Other, database_path: .}}", "Scorers.Scorer1 = {'class_name': 'Other'"),
    ("Scorers: {Scorer1: {database_path: .}}", "Scorers.Scorer1 = {'database_path': '.'"),
    (MATH + "}, Scorer2: {class_name: MathRewardModel}}", "of one kind"),
    (MATH + ", order_check: true}}", "wrong Scorers.Scorer1.order_check"),
    (MATH + "}}\nScorerSever: {port: 7000}", "wrong ScorerSever"),
    (MATH + ", num_instances: 1, num_instances: 2}}", "has the key num_instances twice (line 1)"),
    (MATH + ", prediction_seconds: .inf}}", "Scorers.Scorer1.prediction_seconds = inf"),
    (MATH + ", num_instances: yes}}", "Scorers.Scorer1.num_instances = True: Input should be a valid integer"),
    ("ScorerServer: {}", "wrong Scorers"),
    ("a: [", "cannot be read"),
]


def test_a_wrong_setting_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    def error(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        said = capsys.readouterr().err
        assert ended.value.code == 2 and said.startswith("Error: ") and said.count("\n") == 1, said
        return said

    for text, named in WRONG:
        (tmp_path / "wrong.yaml").write_text(text)
        assert named in error("-c", str(tmp_path / "wrong.yaml"))
    assert "none.yaml" in error("-c", str(tmp_path / "none.yaml"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in error("--database-path", str(tmp_path), "--port", port)


def test_an_empty_section_or_key_means_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"

    def load(text: str, port: int | None = None) -> Settings:
        path.write_text(text)
        return load_settings(path, {"port": port}, {"database_path": tmp_path})

    filled = "{class_name: SqlDetailRewardModel, gold_seconds: , num_instances: null}"
    defaults = load(f"Scorers: {{Scorer1: {filled}}}")
    assert load(f"ScorerServer: {{port: , address: null}}\nScorers: {{Scorer1: {filled}}}") == defaults
    for scorers in ("Scorers:", "Scorers: {}", "Scorers: {Scorer1: }", "Scorers: {Scorer1: {}}"):
        assert load(f"ScorerServer:\n{scorers}") == defaults
    assert load(f"ScorerServer:\nScorers: {{Scorer1: {filled}}}", port=7000).ScorerServer.port == 7000
    two = load("Scorers: {Scorer1: , Scorer2: {class_name: MathRewardModel}}")
    assert two.sql == defaults.sql and two.Scorers["Scorer2"].kind == "math"
    three = load_settings(path, sql={"database_path": tmp_path}, every={"num_instances": 3})
    assert [scorer.num_instances for scorer in three.Scorers.values()] == [3, 3]


# Sections as the released server's file has them.
RELEASED = """
ScorerServer:

Scorers:
  Scorer1:
    class_name: SqlDetailRewardModel
    database_path: /cache/
    num_instances: 1
  MeanStd:
    class_name: MeanStd
    keyname: some_reward
    num_cpus: 4
  Dummy:
    class_name: DummyPostProcessor
    num_instances: 3
Chains:
  chain1:
    scorers: [Scorer1]
    post_scorers: [Dummy]
"""


def test_a_file_of_the_released_server_starts_this_one(
    start_scorer: Callable, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    scorer = start_scorer(text=RELEASED)
    assert scorer.outcome("SELECT 1") == "match" and len(scorer.workers()) == 1
    load_settings(scorer.directory / "settings.yaml")
    said = capsys.readouterr().err
    assert said.startswith("Warning: ") and said.count("\n") == 1
    assert said.endswith(
        "ignores: Chains, Scorers.MeanStd (class_name MeanStd), Scorers.Dummy (class_name DummyPostProcessor).\n"
    )
