"""Starting, losing workers and ending."""

import asyncio
import concurrent.futures
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import uvloop
import yaml

from rl.scorer.config import MathSettings, Settings, SqlSettings, load_settings
from rl.scorer.math_scoring import MathQuestion, MathScorer
from rl.scorer.niceness import may_renice
from rl.scorer.pool import SLOW_NICE, SLOW_SECONDS
from rl.scorer.server import main
from rl.scorer.sql_scoring import SqlScorer
from tests.scorer.conftest import SCRIPT, SHIPPED_SETTINGS, fenced, make_shop


def test_the_shipped_settings_are_complete_and_the_defaults(tmp_path: Path) -> None:
    shipped = yaml.safe_load(SHIPPED_SETTINGS.read_text())
    assert shipped["ScorerServer"] | {"address": "127.0.0.1", "port": 5001} == shipped["ScorerServer"]
    assert shipped["Scorers"]["Scorer1"]["database_path"] == "/cache/"
    least, databases = tmp_path / "least.yaml", {"database_path": tmp_path}
    least.write_text("Scorers: {Scorer1: {class_name: SqlDetailRewardModel}}")
    assert load_settings(SHIPPED_SETTINGS, sql=databases) == (defaults := load_settings(least, sql=databases))
    assert set(shipped["Scorers"]["Scorer1"]) == set(defaults.sql.model_dump())
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
    (MATH + "}}\nScorers: {}", "has the key Scorers twice (line 2)"),
    (MATH + ", prediction_seconds: .inf}}", "Scorers.Scorer1.prediction_seconds = inf"),
    (MATH + ", prediction_seconds: 1.0e+30}}", "Scorers.Scorer1.prediction_seconds = 1e+30"),
    (MATH + ", grace_seconds: .nan}}", "Scorers.Scorer1.grace_seconds = nan"),
    (MATH + ", num_instances: 1000000}}", "Scorers.Scorer1.num_instances = 1000000"),
    (MATH + ", worker_memory_bytes: 10000000000000000000}}", "Scorers.Scorer1.worker_memory_bytes = 1000000000"),
    (MATH + ", worker_memory_bytes: 1000}}", "Scorers.Scorer1.worker_memory_bytes = 1000"),
    (SQL + "., max_value_bytes: 3000000000}}", "Scorers.Scorer1.max_value_bytes = 3000000000"),
    (MATH + "}}\nScorerServer: {max_body_bytes: 5000000000}", "ScorerServer.max_body_bytes = 5000000000"),
    (MATH + "}}\nScorerServer: {shutdown_seconds: 1000000000}", "ScorerServer.shutdown_seconds = 1000000000"),
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


def test_workers_that_do_not_start_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "math_verify.py").write_text("raise ImportError('a broken installation')")
    (tmp_path / "math.yaml").write_text("Scorers: {Scorer1: {class_name: MathRewardModel, num_instances: 1}}")
    done = subprocess.run(
        [sys.executable, SCRIPT, "-c", tmp_path / "math.yaml", "--port", "0"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and "a broken installation" in done.stderr
    assert (
        "\nError: The workers do not start: a worker process did not start; what they wrote is above.\n" in done.stderr
    )


def test_an_unreadable_proc_is_said_on_stderr(tmp_path: Path) -> None:
    """Without it no time limit would hold. The log file has the rest."""
    (tmp_path / "a.yaml").write_text(
        f"ScorerServer: {{log_file: {tmp_path}/log}}\n{SQL}{tmp_path}, num_instances: 1}}}}"
    )
    code = "import sys, psutil, rl.scorer.server as s; psutil.PROCFS_PATH = '/none'; sys.exit(s.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "-c", tmp_path / "a.yaml", "--port", "0"],
        cwd=SCRIPT.parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "Error: The workers do not start: the processor time of a worker cannot be read in /pr"
    )


def test_the_module_has_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(sys, "argv", ["rl.scorer", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("rl.scorer", run_name="__main__")
    assert ended.value.code == 0 and "--database-path" in capsys.readouterr().out


def test_the_server_needs_no_torch_and_a_worker_no_server() -> None:
    code = """if True:
        import sys, rl.scorer.worker
        print(*sys.modules)
        import rl.scorer.audit.command, rl.scorer.server
        from rl.scorer.config import Settings
        settings = Settings.model_validate({"Scorers": {"Scorer1": {"class_name": "MathRewardModel"}}})
        rl.scorer.server.create_app(settings, print, print)
        print(*sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    worker, server = (set(line.split()) for line in done.stdout.splitlines())
    assert not {"fastapi", "pydantic", "asyncio"} & worker
    assert "fastapi" in server and not {"torch", "verl", "omegaconf", "ray", "sympy", "math_verify"} & server


def wait_until_gone(processes: list[int]) -> None:
    deadline = time.monotonic() + 5
    while alive := [process for process in processes if Path(f"/proc/{process}").exists()]:
        assert time.monotonic() < deadline, f"processes {alive} are left"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "seconds", "finishes"),
    [(signal.SIGTERM, 0.5, True), pytest.param(signal.SIGINT, 300.0, False, marks=pytest.mark.slow)],
)
def test_a_signal_finishes_what_ends_soon_cuts_off_the_rest_and_leaves_no_process(
    start_scorer: Callable, number: int, seconds: float, finishes: bool, runaway: str
) -> None:
    scorer = start_scorer(prediction_seconds=seconds, server={"shutdown_seconds": 20 if finishes else 2})
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


@pytest.mark.parametrize(("seconds", "rows"), [(20, 200_000), (1, 6_000_000)])
def test_sigterm_under_load_answers_every_request_that_it_took_and_ends_in_time(
    start_scorer: Callable, seconds: int, rows: int
) -> None:
    """All that waits is answered, or in one second what can be, and the rest is sent to ask again."""
    scorer = start_scorer(prediction_seconds=30.0, server={"shutdown_seconds": seconds, "max_waiting": 1000})
    count = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r LIMIT {}) SELECT count(*) FROM r"

    def ask(number: int) -> tuple[int, object]:
        responses = [fenced(count.format(number, rows)), fenced("SELECT 1"), "nothing"]
        reply = scorer.put(responses, f"SELECT {rows}")
        return reply.status_code, reply.json()

    def taken() -> float:
        text = scorer.client.get("/metrics").text
        return sum(
            float(line.split()[-1]) for line in text.splitlines() if 'cache_misses_total{cache="sql_answers' in line
        )

    with concurrent.futures.ThreadPoolExecutor(40) as executor:
        sent = [executor.submit(ask, number) for number in range(40)]
        deadline = time.monotonic() + 30
        while taken() < len(sent) + 1:  # each has one of its own, and one of all
            assert time.monotonic() < deadline
            time.sleep(0.02)
        workers = scorer.workers()
        scorer.process.send_signal(signal.SIGTERM)
        told = time.monotonic()
        replies = [each.result() for each in sent]
    assert scorer.process.wait(timeout=20) == 0
    assert time.monotonic() - told < seconds + 15
    wait_until_gone(workers)
    answered = [body for status, body in replies if status == 200]
    assert all([score for score, _ in body["Scorer1"]] == [1.0, 0.0, 0.0] for body in answered)
    refused = [body for status, body in replies if status == 503]
    assert all("ending" in body["error"] and body["busy"] is True for body in refused)
    assert len(answered) + len(refused) == len(replies)
    assert refused == [] if seconds == 20 else refused


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


@pytest.mark.slow
def test_killed_workers_under_load_cost_at_most_their_own_answers(scorer) -> None:
    load = 300
    busy = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 20000) SELECT max(x) + {} FROM r"

    def ask(i: int) -> list[tuple[str, float]]:
        question = {"db_id": "shop/shop.sqlite", "gold_sql": f"SELECT {20000 + i}", "cmp_method": "bird"}
        responses = [fenced(busy.format(i)), fenced("SELECT 1")]
        reply = scorer.client.post("/v1/score", json={"questions": [{"question": question, "responses": responses}]})
        assert reply.status_code == 200
        return [(answer["outcome"], answer["score"]) for answer in reply.json()["answers"][0]]

    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        answers = [executor.submit(ask, i) for i in range(load)]
        killed = 0
        while not all(answer.done() for answer in answers):
            workers = scorer.workers()
            if workers:
                with suppress(ProcessLookupError):
                    os.kill(workers[killed % len(workers)], signal.SIGKILL)
                killed += 1
            time.sleep(0.4)
    expected = (("match", 1.0), ("mismatch", 0.0))
    found = [outcome for answer in answers for outcome in zip(answer.result(), expected, strict=True)]
    wrong = [answer for answer, right in found if answer != right]
    assert killed > 0
    # A job is lost when two workers die with it; lost gold is lost for the question's two answers.
    assert wrong == [("infra_error", 0.0)] * len(wrong) and len(wrong) <= killed
    assert scorer.outcome("SELECT 1") == "match"


def test_a_worker_that_crashes_on_a_query_makes_it_an_error(start_scorer: Callable) -> None:
    """SIGSEGV stands for a fault of SQLite's own: no query is known that causes one."""
    scorer = start_scorer(prediction_seconds=30.0, num_instances=1)
    runaway = "WITH RECURSIVE r(x) AS (SELECT 5 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        under_way = executor.submit(scorer.put, [fenced(runaway)], "SELECT 1")
        seen: set[int] = set()
        while not under_way.done():
            for worker in scorer.workers():
                if cpu_ticks(worker) > 30 and worker not in seen:
                    seen.add(worker)
                    os.kill(worker, signal.SIGSEGV)
            time.sleep(0.05)
    assert len(seen) == 2
    [detail] = under_way.result().json()["details"]
    assert detail["outcome"] == "pred_error"
    assert scorer.outcome("SELECT 1") == "match"


def cpu_ticks(process: int) -> int:
    """User time in hundredths of a second; 0 for a process that is gone."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def test_a_worker_that_has_just_died_gets_no_job(tmp_path: Path) -> None:
    """Asked every half millisecond around the moment at which the server's end of the socket closes, with uvloop."""
    make_shop(tmp_path / "shop" / "shop.sqlite")
    scorer = SqlScorer(SqlSettings(class_name="SqlRewardModel", database_path=tmp_path, num_instances=2))

    async def scenario() -> list:
        await scorer.pool.start()
        found = []
        try:
            for attempt in range(5):
                for child in psutil.Process().children(recursive=True):
                    with suppress(psutil.ZombieProcess):
                        if "rl.scorer.worker" in " ".join(child.cmdline()):
                            child.kill()
                asked = []
                for number in range(100):
                    check = scorer.check_gold("shop/shop.sqlite", f"SELECT {attempt}, {number}")
                    asked.append(asyncio.create_task(check))
                    await asyncio.sleep(0.0005)
                found += await asyncio.gather(*asked)
        finally:
            await scorer.pool.close()
        return found

    found = uvloop.run(scenario())
    assert len(found) == 500
    outcomes = Counter(result.outcome for result in found)
    assert set(outcomes) <= {"gold", "infra_error"} and outcomes["gold"] > 400


def test_a_worker_that_cannot_be_started_for_want_of_descriptors_is_an_infra_error(tmp_path: Path) -> None:
    make_shop(tmp_path / "shop" / "shop.sqlite")
    scorer = SqlScorer(SqlSettings(class_name="SqlRewardModel", database_path=tmp_path, num_instances=1))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scenario() -> list[str]:
        await scorer.pool.start()
        try:
            outcomes = [(await scorer.check_gold("shop/shop.sqlite", "SELECT 1")).outcome]
            [worker] = scorer.pool._all
            await worker.kill()
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                async with asyncio.timeout(20):
                    outcomes.append((await scorer.check_gold("shop/shop.sqlite", "SELECT 2")).outcome)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            outcomes.append((await scorer.check_gold("shop/shop.sqlite", "SELECT 2")).outcome)
            return outcomes
        finally:
            await scorer.pool.close()

    assert asyncio.run(scenario()) == ["gold", "infra_error", "gold"]


@pytest.fixture
def forget_niceness() -> Iterator[None]:
    may_renice.cache_clear()
    yield
    may_renice.cache_clear()


def test_without_the_right_to_renice_a_slow_statement_costs_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget_niceness: None
) -> None:
    """setpriority as the kernel has it for a server without CAP_SYS_NICE: a niceness never falls again."""
    system = os.setpriority

    def setpriority(which: int, who: int, niceness: int) -> None:
        if niceness < os.getpriority(which, who):
            raise PermissionError
        system(which, who, niceness)

    monkeypatch.setattr(os, "setpriority", setpriority)
    make_shop(tmp_path / "shop" / "shop.sqlite")
    scorer = SqlScorer(SqlSettings(class_name="SqlRewardModel", database_path=tmp_path, num_instances=1))
    count = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r LIMIT 3000000) SELECT count(*) FROM r"

    async def scenario() -> None:
        await scorer.pool.start()
        try:
            for number in range(4):
                check = await scorer.check_gold("shop/shop.sqlite", count.format(number))
                assert check.outcome == "gold" and check.seconds > SLOW_SECONDS
            assert scorer.pool.workers == 1 and not scorer.pool.ends
        finally:
            await scorer.pool.close()

    asyncio.run(scenario())


@pytest.mark.skipif(not may_renice(), reason="it takes CAP_SYS_NICE")
def test_a_slow_statement_s_priority_is_relative_to_the_server_s(tmp_path: Path) -> None:
    """A server that was started with a niceness keeps its workers there."""
    make_shop(tmp_path / "shop" / "shop.sqlite")
    before = os.getpriority(os.PRIO_PROCESS, 0)
    base = before + 3

    async def scenario() -> tuple[set[int], int]:
        scorer = SqlScorer(SqlSettings(class_name="SqlRewardModel", database_path=tmp_path, num_instances=1))
        await scorer.pool.start()
        try:
            [worker] = scorer.pool._all
            sql = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r LIMIT 5000000) SELECT count(*) FROM r"
            check = asyncio.create_task(scorer.check_gold("shop/shop.sqlite", sql))
            seen = set()
            while not check.done():
                seen.add(os.getpriority(os.PRIO_PROCESS, worker.pid))
                await asyncio.sleep(0.01)
            assert check.result().outcome == "gold"
            return seen, os.getpriority(os.PRIO_PROCESS, worker.pid)
        finally:
            await scorer.pool.close()

    os.setpriority(os.PRIO_PROCESS, 0, base)
    try:
        assert asyncio.run(scenario()) == ({base, base + SLOW_NICE}, base)
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def test_lost_workers_are_forked_anew_and_a_lost_fork_server_is_replaced() -> None:
    scorer = MathScorer(MathSettings(class_name="MathRewardModel", num_instances=2))

    def fork_server() -> psutil.Process:
        [forking] = {psutil.Process(worker.pid).parent() for worker in scorer.pool._all}
        return forking

    async def scores(answers: list[str]) -> list[float]:
        responses = [rf"\boxed{{{answer}}}" for answer in answers]
        return [score.score for score in await scorer.score(MathQuestion(ground_truth="7"), responses)]

    async def end_of_all(killed: list[psutil.Process]) -> None:
        workers = list(scorer.pool._all)
        assert len(workers) == 2
        for process in killed:
            process.kill()
        await asyncio.gather(*(worker.gone.wait() for worker in workers))

    async def scenario() -> None:
        await scorer.pool.start()
        try:
            first = fork_server()
            await end_of_all(first.children())
            assert await scores([rf"\frac{{{7 * n}}}{{{n}}}" for n in range(2, 20)]) == [1.0] * 18
            assert fork_server() == first
            # Its workers end with it.
            await end_of_all([first])
            assert await scores([r"\frac{21}{3}", "8"]) == [1.0, 0.0]
            assert (second := fork_server()) != first
            assert scorer.pool.ends == {"lost": 4}
        finally:
            await scorer.pool.close()
        assert not second.is_running()

    asyncio.run(scenario())
