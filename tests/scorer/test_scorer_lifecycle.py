"""Starting, losing workers and ending."""

import concurrent.futures
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rl.scorer.config import load_settings
from rl.scorer.server import main

SHIPPED_SETTINGS = Path(__file__).resolve().parents[2] / "rl" / "scorer" / "sql.yaml"


def fenced(sql: str) -> str:
    return f"```sql\n{sql}\n```"


def test_the_shipped_settings_are_complete_and_the_defaults(tmp_path: Path) -> None:
    shipped = yaml.safe_load(SHIPPED_SETTINGS.read_text())
    assert shipped["ScorerServer"] | {"address": "127.0.0.1", "port": 5001} == shipped["ScorerServer"]
    assert shipped["Scorers"]["Scorer1"]["database_path"] == "/cache/"
    least = tmp_path / "least.yaml"
    least.write_text("Scorers: {Scorer1: {class_name: SqlDetailRewardModel}}")
    assert load_settings(SHIPPED_SETTINGS, None, None, tmp_path) == load_settings(least, None, None, tmp_path)
    defaults = load_settings(least, None, None, tmp_path)
    assert set(shipped["Scorers"]["Scorer1"]) == set(defaults.sql.model_dump())
    assert set(shipped["ScorerServer"]) == set(defaults.ScorerServer.model_dump())
    math = yaml.safe_load(SHIPPED_SETTINGS.with_name("math.yaml").read_text())
    least.write_text("Scorers: {Scorer1: {class_name: MathRewardModel}}")
    assert load_settings(least, None, None, None).math.model_dump() == math["Scorers"]["Scorer1"]


WRONG = [
    ("Scorers: {Scorer1: {class_name: SqlRewardModel, database_path: /none/such}}", "Scorers.Scorer1.database_path"),
    ("Scorers: {Scorer1: {class_name: SqlRewardModel}}", "Scorers.Scorer1.database_path"),
    ("Scorers: {Scorer1: {class_name: Other, database_path: .}}", "Scorers.Scorer1.class_name = 'Other'"),
    ("Scorers: {Scorer1: {class_name: SqlRewardModel, database_path: ., num_instance: 2}}", "num_instance"),
    ("Scorers: {Scorer1: {class_name: SqlRewardModel, database_path: ., num_instances: 0}}", "num_instances = 0"),
    ("ScorerServer: {port: 70000}\nScorers: {Scorer1: {class_name: SqlRewardModel, database_path: .}}", "port"),
    ("ScorerServer: {log_file: /no/log}\nScorers: {Scorer1: {class_name: SqlRewardModel, database_path: .}}", "log_f"),
    ("Scorers: {Scorer1: {database_path: .}}", "Scorers.Scorer1.class_name = None"),
    ("Scorers: {Scorer1: {class_name: MathRewardModel}, Scorer2: {class_name: MathRewardModel}}", "of one kind"),
    ("Scorers: {Scorer1: {class_name: MathRewardModel, database_path: .}}", "key Scorers.Scorer1.database_path"),
    ("Scorers: {}", "Scorers"),
    ("Scorers: [1]", "Scorers"),
    ("ScorerServer: {}", "Scorers"),
    ("just text", "holds no settings"),
    ("a: [", "cannot be read"),
]


@pytest.mark.parametrize(("text", "named"), WRONG)
def test_a_wrong_setting_is_one_sentence(text: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "wrong.yaml").write_text(text)
    assert main(["-c", str(tmp_path / "wrong.yaml")]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


def test_what_cannot_be_read_written_or_listened_on_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["-c", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err
    missing = tmp_path / "none" / "address"
    assert main(["--database-path", str(tmp_path), "--address-file", str(missing)]) == 2
    assert str(missing) in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--database-path", str(tmp_path), "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert str(port) in said
    assert said.count("\n") == 1


def test_the_module_has_help() -> None:
    done = subprocess.run([sys.executable, "-m", "rl.scorer", "--help"], capture_output=True, text=True, check=True)
    assert "--database-path" in done.stdout


@pytest.mark.parametrize(
    ("module", "absent"), [("app", {"torch", "verl"}), ("worker", {"fastapi", "pydantic", "asyncio"})]
)
def test_the_server_needs_no_torch_and_a_worker_no_server(module: str, absent: set[str]) -> None:
    code = f"import rl.scorer.{module}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not absent & set(done.stdout.split())


def wait_until_gone(processes: list[int]) -> None:
    deadline = time.monotonic() + 5
    while alive := [process for process in processes if Path(f"/proc/{process}").exists()]:
        assert time.monotonic() < deadline, f"processes {alive} are left"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "seconds", "finishes"), [(signal.SIGTERM, 1.0, True), (signal.SIGINT, 300.0, False)]
)
def test_a_signal_finishes_what_ends_soon_cuts_off_the_rest_and_leaves_no_process(
    start_scorer: Callable, number: int, seconds: float, finishes: bool, runaway: str
) -> None:
    scorer = start_scorer(prediction_seconds=seconds)
    assert scorer.process.stdout.readline().decode().split()[-1] == scorer.url
    workers = scorer.workers()
    assert len(workers) == 2
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        under_way = executor.submit(scorer.put, [fenced(runaway)], "SELECT 1")
        time.sleep(0.3)
        scorer.process.send_signal(number)
        reply = under_way.result()
    if finishes:
        assert reply.json()["details"][0]["outcome"] == "pred_timeout"
    else:
        assert reply.status_code == 503
        assert "ending" in reply.json()["error"]
    assert scorer.process.wait(timeout=10) == 0
    wait_until_gone(workers)
    assert not (scorer.directory / "address").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="workers follow a killed server by Linux's parent death signal")
def test_a_killed_server_leaves_no_process(start_scorer: Callable, runaway: str) -> None:
    scorer = start_scorer(prediction_seconds=300.0)
    workers = scorer.workers()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        under_way = executor.submit(scorer.put, [fenced(runaway)], "SELECT 1")
        time.sleep(0.3)
        scorer.process.kill()
        assert under_way.exception() is not None
    scorer.process.wait()
    wait_until_gone(workers)


def test_killed_workers_under_load_cost_no_answer_a_wrong_score(scorer) -> None:
    load = 40
    busy = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 20000) SELECT max(x) + {} FROM r"

    def ask(i: int) -> int | list:
        reply = scorer.put([fenced(busy.format(i)), fenced("SELECT 1")], f"SELECT {20000 + i}")
        return reply.json()["Scorer1"] if reply.status_code == 200 else reply.status_code

    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        answers = [executor.submit(ask, i) for i in range(load)]
        killed = 0
        while not all(answer.done() for answer in answers):
            workers = scorer.workers()
            if workers and killed < 4:
                os.kill(workers[killed % len(workers)], signal.SIGKILL)
                killed += 1
            time.sleep(0.1)
    scores = [answer.result() for answer in answers]
    refused = [score for score in scores if score == 503]
    assert killed > 0
    assert len(refused) <= killed // 2
    assert all([entry[0] for entry in score] == [1.0, 0.0] for score in scores if score != 503)
    assert scorer.outcome("SELECT 1") == "match"
