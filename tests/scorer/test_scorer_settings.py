"""The server's settings and options: defaults, the released server's file, and one sentence for what is wrong."""

import runpy
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rl.scorer.config import Settings, load_settings
from rl.scorer.server import main
from tests.scorer.conftest import SHIPPED_SETTINGS


def test_the_shipped_settings_are_complete_and_the_defaults(tmp_path: Path) -> None:
    shipped = yaml.safe_load(SHIPPED_SETTINGS.read_text())
    assert shipped["ScorerServer"] | {"address": "127.0.0.1", "port": 5001} == shipped["ScorerServer"]
    assert shipped["Scorers"]["Scorer1"]["database_path"] == "/cache/"
    least, databases = tmp_path / "least.yaml", {"database_path": tmp_path}
    least.write_text("Scorers: {Scorer1: {class_name: SqlDetailRewardModel}}")
    assert load_settings(SHIPPED_SETTINGS, sql=databases) == (defaults := load_settings(least, sql=databases))
    assert set(shipped["Scorers"]["Scorer1"]) == set(defaults.sql[0].model_dump())
    assert set(shipped["ScorerServer"]) == set(defaults.ScorerServer.model_dump())
    math = yaml.safe_load(SHIPPED_SETTINGS.with_name("math.yaml").read_text())
    least.write_text("Scorers: {Scorer1: {class_name: MathRewardModel}}")
    assert load_settings(least).Scorers["Scorer1"].model_dump() == math["Scorers"]["Scorer1"]


SQL = "Scorers: {Scorer1: {class_name: SqlRewardModel, database_path: "
MATH = "Scorers: {Scorer1: {class_name: MathRewardModel"
WRONG = [
    (SQL + "/none/such}}", "Scorers.Scorer1.database_path is '/none/such', which is no directory; create it or pass -"),
    ("Scorers: {Scorer1: {class_name: SqlRewardModel}}", "lacks Scorers.Scorer1.database_path; add it or pass --datab"),
    ("Scorers: {Scorer1: {class_name: Other, database_path: .}}", "Scorers.Scorer1.class_name = 'Other'"),
    (MATH + "}, Scorer2: {class_name: SqlReward_Model}}", "Scorers.Scorer2.class_name = 'SqlReward_Model'; use one of"),
    (SQL + "., num_instance: 2}}", "num_instance"),
    (SQL + "., num_instances: 0}}", "num_instances = 0"),
    (SQL + ".}}\nScorerServer: {port: 70000}", "port"),
    (SQL + ".}}\nScorerServer: {log_file: /no/log}", "log_file"),
    (SQL + ".}}\nScorerServer: text", "ScorerServer = 'text'"),
    ("Scorers: {Scorer1: {database_path: .}}", "Scorers.Scorer1.class_name = None"),
    (MATH + "}, Scorer2: {class_name: MathRewardModel}}", "of one kind"),
    (MATH + ", order_check: true}}", "key Scorers.Scorer1.order_check"),
    (MATH + "}}\nScorerServer: {prot: }", "key ScorerServer.prot"),
    (MATH + "}}\nScorerSever: {port: 7000}", "unknown key ScorerSever"),
    (MATH + ", num_instances: 1, num_instances: 2}}", "has the key num_instances twice (line 1)"),
    (MATH + ", prediction_seconds: .inf}}", "Scorers.Scorer1.prediction_seconds = inf"),
    (MATH + ", worker_memory_bytes: 1000}}", "Scorers.Scorer1.worker_memory_bytes = 1000"),
    (SQL + "., max_value_bytes: 3000000000}}", "Scorers.Scorer1.max_value_bytes = 3000000000"),
    ("Scorers: [1]", "Scorers = [1]"),
    ("ScorerServer: {}", "lacks Scorers"),
    ("just text", "holds no settings"),
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
    missing = tmp_path / "none" / "address"
    assert str(missing) in error("--database-path", str(tmp_path), "--address-file", str(missing))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in error("--database-path", str(tmp_path), "--port", port)
    assert "num_instances = 0: Input should be greater than 0; change it or pass --workers N" in error(
        "--database-path", str(tmp_path), "--workers", "0"
    )


def test_an_empty_section_or_key_means_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"

    def load(text: str, port: int | None = None) -> Settings:
        path.write_text(text)
        return load_settings(path, {"port": port}, {"database_path": tmp_path})

    filled = "{class_name: SqlDetailRewardModel, gold_seconds: , num_instances: null}"
    defaults = load(f"Scorers: {{Scorer1: {filled}}}")
    for server in ("", "ScorerServer:\n", "ScorerServer: {}\n", "ScorerServer: {port: , address: null}\n"):
        assert load(server + f"Scorers: {{Scorer1: {filled}}}") == defaults
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


def test_the_module_has_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(sys, "argv", ["rl.scorer", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("rl.scorer", run_name="__main__")
    assert ended.value.code == 0 and "--database-path" in capsys.readouterr().out
