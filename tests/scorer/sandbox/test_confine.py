"""What the kernel denies a worker that an attacker controls, and what the worker must still be able to do.

The attacks (attacks.py) run within a real worker: a worker for SQL or math that was taken over (`take_over`), a custom
task whose function runs the response as code. Every attack must work in an unconfined worker, else it proves nothing.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from rl.scorer import fork_server
from rl.scorer.config import MathSettings, SqlSettings, TaskSettings
from rl.scorer.math.scoring import MathScorer
from rl.scorer.sandbox import confine, landlock
from rl.scorer.scoring import WorkerScorer
from rl.scorer.sql.scoring import SqlScorer
from rl.scorer.task.scoring import TaskQuestion, TaskScorer
from tests.scorer.attacks import ATTACKS, BEGINNING, CHANGING, NETWORK, PROGRAMS, READING, WORK, Targets
from tests.scorer.conftest import confined, make_database, running
from tests.scorer.postgresql import Postgresql


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    folder = tmp_path_factory.mktemp("targets")
    make_database(folder / "outside.sqlite", "CREATE TABLE t (a)")
    name = f"dph-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as local:
        local.bind(f"\0{name}")
        local.listen()
        made = Targets(folder / "outside.sqlite", folder / "databases", listener.getsockname()[1], name)
        made.FOLDER.mkdir()
        yield made
        made.end()


TAKEN_OVER = """
from rl.scorer import worker
from rl.scorer.KIND.jobs import TITLEJobs as Jobs

genuine = Jobs.reply

def reply(jobs, job, body):
    if "attack" not in job:
        return genuine(jobs, job, body)
    try:
        exec(job["attack"], {})
        return {"outcome": "done"}, b""
    except BaseException as error:
        return {"outcome": "failed", "error": repr(error), "errno": getattr(error, "errno", None)}, b""

Jobs.reply = reply
worker.main()
"""


def take_over(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    program = TAKEN_OVER.replace("KIND", kind).replace("TITLE", kind.title())
    monkeypatch.setattr(fork_server, "_PROGRAM", program)


def one_worker(kind: str, targets: Targets, sandbox: str, connection: str | None = None) -> WorkerScorer:
    settings = {"num_instances": 1, "slow_instances": 1, "sandbox": sandbox}
    if kind != "math":
        where = {"connection": connection} if connection else {"database_path": targets.FOLDER}
        named = {"class_name": "SqlRewardModel", "engine": "sqlite" if kind == "sql" else kind}
        return SqlScorer(SqlSettings.model_validate(named | where | settings))
    return MathScorer(MathSettings.model_validate({"class_name": "MathRewardModel"} | settings))


def in_turn(
    scorer: WorkerScorer, targets: Targets, attacks: dict[str, str], run: Callable[[str], Awaitable[str]]
) -> dict[str, str]:
    """The result of `run` for each attack on the worker, or "survived" if the attack ran and its victim survived."""

    async def attack(name: str, code: str) -> str:
        found = await run(targets.code(code))
        return "survived" if name.startswith("kill") and found == "done" and targets.survived() else found

    async def scenario() -> dict[str, str]:
        async with running(scorer):
            return {name: await attack(name, code) for name, code in attacks.items()}

    return asyncio.run(scenario())


def outcomes(scorer: WorkerScorer, targets: Targets, attacks: dict[str, str]) -> dict[str, str]:
    """For each attack on the worker: "done", "survived" (its victim), "lost" (the worker has ended) or the error."""

    async def run(code: str) -> str:
        header, _ = await scorer._ask(lambda _: ({"attack": code}, b""), 20.0)
        return "lost" if header["outcome"] == "infra_error" else header.get("error", header["outcome"])

    return in_turn(scorer, targets, attacks, run)


@confined
@pytest.mark.parametrize("kind", ["sql", "math"])
def test_a_worker_that_was_taken_over_can_only_compute_and_read_its_folders(
    kind: str, targets: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_over(monkeypatch, "math" if kind == "math" else "sql")
    free = outcomes(one_worker(kind, targets, "off"), targets, ATTACKS)
    assert {name: found for name, found in free.items() if found not in ("done", "lost")} == {}
    found = outcomes(one_worker(kind, targets, "required"), targets, ATTACKS)
    assert {name: error for name, error in found.items() if not denied(error)} == {}
    assert found == found | {"open a file for writing": f"PermissionError({errno.EACCES}, 'Permission denied')"}


@confined
@pytest.mark.skipif(
    landlock.version() < 6, reason="Landlock denies ports and abstract sockets from versions 4 and 6 on"
)
@pytest.mark.parametrize("host", ["a local socket", "127.0.0.1"])
def test_a_worker_of_postgresql_can_only_connect_to_its_server(
    host: str, postgresql: Postgresql, targets: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_over(monkeypatch, "sql")
    connection = postgresql.connection if host != "127.0.0.1" else f"host={host} port={postgresql.port} user=reader"
    local = f"socket.socket(socket.AF_UNIX).connect('{postgresql.folder}/.s.PGSQL.{postgresql.port}')"
    its_own = {"127.0.0.1": f"socket.create_connection(('127.0.0.1', {postgresql.port}))"}.get(host, local)
    found = outcomes(one_worker("postgresql", targets, "required", connection), targets, ATTACKS)
    assert {name: error for name, error in found.items() if not denied(error)} == {}
    scorer = one_worker("postgresql", targets, "required", connection)
    assert outcomes(scorer, targets, {"connect": f"import socket; {its_own}"}) == {"connect": "done"}


def denied(error: str) -> bool:
    codes = (errno.EPERM, errno.EACCES, errno.ENOSYS)
    # Of these, the library makes errors of its own.
    others = ("unable to open database file", "not allowed to raise maximum limit")
    return any(f"({code}, " in error for code in codes) or any(text in error for text in others)


@confined
@pytest.mark.parametrize("kind", ["sql", "math"])
def test_a_confined_worker_does_what_python_needs(
    kind: str, targets: Targets, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    take_over(monkeypatch, kind)
    imports = {"packages": "import numpy, sympy.physics.mechanics; numpy.linalg.inv(numpy.eye(50))"}
    work = WORK | (imports if kind == "math" else {})
    found = outcomes(one_worker(kind, targets, "required"), targets, work)
    assert found == dict.fromkeys(work, "done")
    said = capfd.readouterr().err
    assert "printed by a test\n" in said and "so is this\n" in said


SENDING = """
import stat, struct, time
[channel] = [n for n in range(3, 64) if os.path.exists(f'/dev/fd/{n}') and stat.S_ISSOCK(os.fstat(n).st_mode)]
os.write(channel, BYTES)
time.sleep(60)
"""


@pytest.mark.parametrize("sent", ["struct.pack('>II', 9, 1 << 31)", "struct.pack('>II', 9, 0) + b'not JSON.'"])
def test_a_worker_that_does_not_keep_to_the_protocol_is_ended(
    sent: str, targets: Targets, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take_over(monkeypatch, "sql")
    code = SENDING.replace("BYTES", sent)
    assert outcomes(one_worker("sql", targets, "off"), targets, {"send": code}) == {"send": "lost"}
    assert caplog.text.count("was killed: it sent") == 2, caplog.text


@confined
def test_a_replaced_folder_of_databases_is_read_after_one_failure(targets: Targets, tmp_path: Path) -> None:
    """Landlock's rule is about the folder that existed when the worker started."""
    folder = tmp_path / "databases"
    make_database(folder / "a.sqlite", "CREATE TABLE t (a)")
    scorer = SqlScorer(SqlSettings(class_name="SqlRewardModel", database_path=folder, num_instances=1))

    async def scenario() -> list[str]:
        async with running(scorer):
            found = [(await scorer.check_gold("a.sqlite", "SELECT * FROM t")).outcome]
            folder.rename(tmp_path / "old")
            make_database(folder / "a.sqlite", "CREATE TABLE t (a)")
            found += [(await scorer.check_gold("a.sqlite", f"SELECT {number} FROM t")).outcome for number in range(2)]
            return [*found, *scorer.pool.ends.elements()]

    assert asyncio.run(scenario()) == ["empty", "infra_error", "empty", "fault"]


# Custom tasks

FUNCTION = f"""
BEGINNING = {BEGINNING!r}

def score(response, ground_truth):
    exec(BEGINNING + response, {{}})
    return 1.0
"""


@pytest.fixture
def run_in_task(tmp_path: Path, targets: Targets) -> Callable[..., dict[str, str]]:
    """run_in_task(attacks, **settings): as `outcomes`, from the worker of a custom task."""
    path = tmp_path / "reward.py"
    path.write_text(FUNCTION)

    def run(attacks: dict[str, str], **settings: object) -> dict[str, str]:
        named = {"class_name": "PythonRewardModel", "task": "own", "function": f"{path}:score", "num_instances": 1}
        scorer = TaskScorer(TaskSettings.model_validate(named | {"sandbox": "required"} | settings))
        question = TaskQuestion(task="own", ground_truth=None)

        async def ask(code: str) -> str:
            [score] = await scorer.score(question, [code])
            if score.outcome == "match":
                return "done"
            return "lost" if "were lost" in str(score.error) else str(score.error)

        return in_turn(scorer, targets, attacks, ask)

    return run


HARMFUL = {name: code for name, code in ATTACKS.items() if name not in READING} | {
    "read the server's environment": READING["read the server's environment"]
}


def passed(found: dict[str, str]) -> set[str]:
    return {name for name, error in found.items() if error in ("done", "lost")}


@confined
def test_a_task_s_function_reads_and_computes_unless_it_is_allowed_more(run_in_task: Callable) -> None:
    assert passed(run_in_task(HARMFUL, sandbox="off")) == set(HARMFUL)
    found = run_in_task(HARMFUL)
    assert {name: error for name, error in found.items() if not denied(error)} == {}
    assert "`allow` in its section" in found["remove a file"]
    opens = {
        f"open {address}": f"import urllib.request; urllib.request.urlopen('http://{address}')"
        for address in ("127.0.0.1:9", "nowhere.invalid")
    }
    found = run_in_task(opens)
    assert all("URLError" in error and "`allow` in its section" in error for error in found.values()), found
    packages = {"packages": "import numpy, scipy.optimize, sympy, pandas; numpy.linalg.inv(numpy.eye(200))"}
    devices = {"devices": "print('x', file=open(os.devnull, 'w')), open('/dev/urandom', 'rb').read(1)"}
    harmless = {name: READING[name] for name in ("read the users", "read another database", "list a folder")}
    harmless |= WORK | packages | devices
    roomy = {"worker_memory_bytes": 8_000_000_000, "prediction_seconds": 60}
    assert run_in_task(harmless, **roomy) == dict.fromkeys(harmless, "done")


@confined
def test_a_task_s_function_does_what_allow_says_and_no_more(run_in_task: Callable, targets: Targets) -> None:
    assert passed(run_in_task(HARMFUL, allow=["network"])) == set(NETWORK)
    scoped = landlock.version() >= 6
    kills = set() if scoped else {name for name in HARMFUL if name.startswith("kill")}
    own_child = {
        "end a child": "import subprocess; child = subprocess.Popen(['sleep', '60']); child.kill(); child.wait()",
        "write by a program": "import subprocess; subprocess.run(['touch', 'FOLDER/new'], check=True, stderr=-3)",
    }
    found = run_in_task(HARMFUL | own_child, allow=["subprocess"])
    assert passed(found) - kills == set(PROGRAMS) | {"end a child"}
    found = run_in_task(HARMFUL | own_child, allow=[f"write:{targets.FOLDER}", "subprocess"])
    assert passed(found) - kills == set(CHANGING) | set(PROGRAMS) | set(own_child)
    elsewhere = {
        "write": "open('FOLDER/../elsewhere', 'w')",
        "move out": "os.rename('TARGET', 'FOLDER/../moved')",
        "large": "open('TARGET', 'wb').write(bytes(10_000_000))",
    }
    assert passed(run_in_task(elsewhere, allow=[f"write:{targets.FOLDER}"])) == {"large"}


@confined
@pytest.mark.parametrize("mechanism", ["seccomp", "landlock"])
def test_one_mechanism_alone_still_confines(mechanism: str, targets: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "offered", lambda: (mechanism,))
    take_over(monkeypatch, "sql")
    attacks = ATTACKS if mechanism == "seccomp" else READING | CHANGING
    found = passed(outcomes(one_worker("sql", targets, "auto"), targets, attacks))
    # Landlock confines files. Without it, no way to change anything is left; looking into another process takes all of
    # its capabilities, which root's worker has given up.
    processes = {"read the server's environment", "read another's memory"}
    left = set(READING) - processes if mechanism == "seccomp" else {"change a mode", "change the times"}
    assert found - (processes if mechanism == "seccomp" else set()) == left
