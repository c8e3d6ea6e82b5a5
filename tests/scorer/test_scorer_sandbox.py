"""What the kernel denies a worker that an attacker directs, and what it must go on to do.

The attacks are Python code that runs within a real worker: a worker for SQL or math that was taken over (`take_over`),
a custom task whose function runs what a response says. Every attack must work where nothing confines the worker, else
it shows nothing.
"""

import asyncio
import errno
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from rl.common.errors import UserError
from rl.scorer import fork_server
from rl.scorer.config import MathSettings, ScorerSettings, Settings, SqlSettings, TaskSettings
from rl.scorer.math_scoring import MathScorer
from rl.scorer.metrics import Metrics
from rl.scorer.sandbox import landlock, seccomp, support, system_calls
from rl.scorer.scorers import Scorers
from rl.scorer.scoring import WorkerScorer
from rl.scorer.server import main
from rl.scorer.sql_scoring import SqlScorer
from rl.scorer.task_scoring import TaskQuestion, TaskScorer

confined = pytest.mark.skipif(
    support.offered() != support.MECHANISMS, reason="the kernel lacks Landlock or seccomp on this architecture"
)

# Names in capitals: see Targets.code.
READING = {
    "read the users": "open('/etc/passwd').read()",
    "read another database": """
import sqlite3
sqlite3.connect('file:OUTSIDE?mode=ro', uri=True).execute('SELECT * FROM t')
""",
    "list a folder": "os.listdir('/')",
    "read the server's environment": "open(f'/proc/{os.getppid()}/environ').read()",
    "list processes": "os.listdir('/proc')",
}
CHANGING = {
    "remove a file": "os.remove('TARGET')",
    "rename a file": "os.rename('TARGET', 'TARGET.other')",
    "truncate a file": "os.truncate('TARGET', 0)",
    "open a file for writing": "os.open('TARGET', os.O_WRONLY)",
    "open and truncate": "os.open('TARGET', os.O_RDONLY | os.O_TRUNC)",
    "create a file": "os.open('FOLDER/new', os.O_CREAT)",
    "make a folder": "os.mkdir('FOLDER/folder')",
    "remove a folder": "os.rmdir('FOLDER/empty')",
    "link": "os.link('TARGET', 'FOLDER/link')",
    "link by name": "os.symlink('/etc/passwd', 'FOLDER/link.sqlite')",
    "make a pipe": "os.mkfifo('FOLDER/pipe')",
    "change a mode": "os.chmod('TARGET', 0)",
    "change the times": "os.utime('TARGET', (0, 0))",
}
NETWORK = {
    "connect": "import socket; socket.create_connection(('127.0.0.1', PORT)).close()",
    "listen": "import socket; socket.create_server(('127.0.0.1', 0)).close()",
    "send a datagram": "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
    "connect to a local socket": "import socket; socket.socket(socket.AF_UNIX).connect('\\0SOCKET')",
}
PROGRAMS = {
    "run a program": "import subprocess; subprocess.run(['true'], check=True)",
    "fork": "child = os.fork() or os._exit(0); os.waitpid(child, 0)",
    "become a program": "os.execv('/bin/true', ['true'])",
}
OTHERS = {
    "kill": "os.kill(VICTIM, 9)",
    "kill by a descriptor": "import signal; signal.pidfd_send_signal(os.pidfd_open(VICTIM), 9)",
    # SIGKILL when something can be read of a pipe.
    "kill by input": """
import fcntl
reader, writer = os.pipe()
fcntl.fcntl(reader, 8, VICTIM), fcntl.fcntl(reader, 10, 9)
fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | fcntl.fcntl(reader, fcntl.F_GETFL))
os.write(writer, b'x')
""",
    # And let go, or nobody learns of its end.
    "trace": "call(library.ptrace(16, VICTIM, 0, 0)), os.waitpid(VICTIM, 0), library.ptrace(17, VICTIM, 0, 0)",
    "read another's memory": "open('/proc/VICTIM/mem', 'rb', 0)",
    "limit another": "import resource; resource.prlimit(VICTIM, resource.RLIMIT_NOFILE, (9, 9))",
    "io_uring": "call(library.syscall(425, 1, bytes(200)))",
    "use keys": "call(library.syscall({'x86_64': 250, 'aarch64': 219}[os.uname().machine], 0, -3, 0))",
    "another namespace": "call(library.unshare(0x04000000))",
}
ATTACKS = READING | CHANGING | NETWORK | PROGRAMS | OTHERS
# What takes a capability, by its number.
PRIVILEGED = {
    (21, "mount"): "call(library.mount(b'none', b'FOLDER/empty', b'tmpfs', 0, None)), library.umount(b'FOLDER/empty')",
    (24, "lift its limits"): "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
}
CAPABILITIES = int(Path("/proc/self/status").read_text().split("CapEff:")[1].split()[0], 16)
ATTACKS |= {name: code for (number, name), code in PRIVILEGED.items() if CAPABILITIES >> number & 1}

# To be run by workers, before the attack.
BEGINNING = """
import ctypes, os
library = ctypes.CDLL(None, use_errno=True)
def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""

WORK = {
    "import late": "import decimal, sqlite3, xml.dom.minidom, zipfile, email.message, encodings.cp1252",
    "time zones": "import zoneinfo, time; zoneinfo.ZoneInfo('Europe/Rome'); time.localtime()",
    "threads": """
import threading
done = []
threads = [threading.Thread(target=done.append, args=(i,)) for i in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
assert sorted(done) == list(range(8))
""",
    "signals of its own": """
import signal
signal.signal(10, lambda *_: None), signal.raise_signal(10), os.kill(os.getpid(), 10)
""",
    "random": "import secrets, uuid; secrets.token_bytes(), os.urandom(8), uuid.uuid4()",
    "wait": "import select, time; time.sleep(0.01), select.select([], [], [], 0.01), select.poll().poll(1)",
    "limits": "import resource; resource.getrlimit(resource.RLIMIT_DATA), resource.getrusage(resource.RUSAGE_SELF)",
    "memory": "x = bytes(30_000_000); y = x + x; del x, y",
    "files of its folders": """
folder = os.path.dirname(os.__file__)
assert [open(os.path.join(folder, name)).read() for name in os.listdir(folder) if name.startswith('a') and '.' in name]
""",
    "print": "import sys; print('printed by a test', flush=True); print('so is this', file=sys.stderr)",
}


@dataclass
class Targets:
    """What attacks aim at."""

    OUTSIDE: Path
    FOLDER: Path
    PORT: int
    SOCKET: str
    victim: subprocess.Popen | None = None

    def code(self, attack: str) -> str:
        """The attack, on targets that are as new."""
        self.FOLDER.mkdir(exist_ok=True)
        for path in self.FOLDER.iterdir():
            path.rmdir() if path.is_dir() else path.unlink()
        (self.FOLDER / "empty").mkdir()
        (self.FOLDER / "file.sqlite").write_text("content")
        if "VICTIM" in attack:
            self.end()
            self.victim = subprocess.Popen(["sleep", "600"])
            attack = attack.replace("VICTIM", str(self.victim.pid))
        for name in ("OUTSIDE", "FOLDER", "PORT", "SOCKET"):
            attack = attack.replace(name, str(getattr(self, name)))
        return BEGINNING + attack.replace("TARGET", str(self.FOLDER / "file.sqlite"))

    def survived(self) -> bool:
        """Whether the victim is still there after a moment."""
        try:
            self.victim.wait(0.3)
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self) -> None:
        if self.victim is not None:
            self.victim.kill()
            self.victim.wait()


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Targets]:
    folder = tmp_path_factory.mktemp("targets")
    with closing(sqlite3.connect(folder / "outside.sqlite")) as connection:
        connection.execute("CREATE TABLE t (a)")
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


def one_worker(kind: str, targets: Targets, sandbox: str) -> WorkerScorer:
    settings = {"num_instances": 1, "slow_instances": 1, "sandbox": sandbox}
    if kind == "sql":
        named = {"class_name": "SqlRewardModel", "database_path": targets.FOLDER}
        return SqlScorer(SqlSettings.model_validate(named | settings))
    return MathScorer(MathSettings.model_validate({"class_name": "MathRewardModel"} | settings))


def outcomes(scorer: WorkerScorer, targets: Targets, attacks: dict[str, str]) -> dict[str, str]:
    """Of each attack on the one worker: "done", "survived" (its victim), "lost" (the worker has ended) or the error."""

    async def attack(name: str, code: str) -> str:
        header, _ = await scorer._ask(lambda _: ({"attack": code}, b""), 20.0)
        if name.startswith("kill") and targets.survived() and header["outcome"] == "done":
            return "survived"
        return "lost" if header["outcome"] == "infra_error" else header.get("error", header["outcome"])

    async def scenario() -> dict[str, str]:
        await scorer.pool.start()
        try:
            return {name: await attack(name, targets.code(code)) for name, code in attacks.items()}
        finally:
            await scorer.pool.close()

    return asyncio.run(scenario())


@confined
@pytest.mark.parametrize("kind", ["sql", "math"])
def test_a_worker_that_was_taken_over_can_only_compute_and_read_its_folders(
    kind: str, targets: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_over(monkeypatch, kind)
    free = outcomes(one_worker(kind, targets, "off"), targets, ATTACKS)
    assert {name: found for name, found in free.items() if found not in ("done", "lost")} == {}
    found = outcomes(one_worker(kind, targets, "required"), targets, ATTACKS)
    assert {name: error for name, error in found.items() if not denied(error)} == {}
    assert found == found | {"open a file for writing": f"PermissionError({errno.EACCES}, 'Permission denied')"}


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
    assert f"{kind} worker: printed by a test\n" in said and f"{kind} worker: so is this\n" in said


SENDING = """
import stat, struct, time
[channel] = [n for n in range(3, 64) if os.path.exists(f'/dev/fd/{n}') and stat.S_ISSOCK(os.fstat(n).st_mode)]
os.write(channel, BYTES)
time.sleep(60)
"""
FLOODS = {"endless reply": "struct.pack('>II', 9, 1 << 31)", "no reply": "struct.pack('>II', 9, 0) + b'not JSON.'"}


@pytest.mark.parametrize("sent", FLOODS)
def test_a_worker_that_does_not_keep_to_the_protocol_is_ended(
    sent: str, targets: Targets, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    take_over(monkeypatch, "sql")
    code = SENDING.replace("BYTES", FLOODS[sent])
    assert outcomes(one_worker("sql", targets, "off"), targets, {"send": code}) == {"send": "lost"}
    assert caplog.text.count("was killed: it sent") == 2, caplog.text


@confined
def test_a_replaced_folder_of_databases_is_read_after_one_failure(targets: Targets, tmp_path: Path) -> None:
    """Landlock's rule is for the folder that was there when the worker started."""
    folder = tmp_path / "databases"

    def make(path: Path) -> None:
        path.mkdir()
        with closing(sqlite3.connect(path / "a.sqlite")) as connection:
            connection.execute("CREATE TABLE t (a)")

    make(folder)
    scorer = SqlScorer(SqlSettings(class_name="SqlRewardModel", database_path=folder, num_instances=1))

    async def scenario() -> list[str]:
        await scorer.pool.start()
        try:
            found = [(await scorer.check_gold("a.sqlite", "SELECT * FROM t")).outcome]
            folder.rename(tmp_path / "old")
            make(folder)
            found += [(await scorer.check_gold("a.sqlite", f"SELECT {number} FROM t")).outcome for number in range(2)]
            return [*found, *scorer.pool.ends.elements()]
        finally:
            await scorer.pool.close()

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

        async def attack(name: str, code: str) -> str:
            [score] = await scorer.score(question, [code])
            if name.startswith("kill") and targets.survived() and score.outcome == "match":
                return "survived"
            if score.outcome == "match":
                return "done"
            return "lost" if "were lost" in str(score.error) else str(score.error)

        async def scenario() -> dict[str, str]:
            await scorer.pool.start()
            try:
                return {name: await attack(name, targets.code(code)) for name, code in attacks.items()}
            finally:
                await scorer.pool.close()

        return asyncio.run(scenario())

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


# Kernels and architectures that this one is not


@confined
def test_seccomp_alone_still_leaves_no_way_to_change_anything(
    targets: Targets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support, "offered", lambda: ("seccomp",))
    take_over(monkeypatch, "sql")
    found = outcomes(one_worker("sql", targets, "auto"), targets, ATTACKS)
    # Looking into another process takes all of its capabilities, which root's worker has given up.
    processes = {"read the server's environment", "read another's memory"}
    assert passed(found) - processes == set(READING) - processes


@confined
def test_landlock_alone_still_confines_files(targets: Targets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support, "offered", lambda: ("landlock",))
    take_over(monkeypatch, "sql")
    attacks = READING | CHANGING
    found = passed(outcomes(one_worker("sql", targets, "auto"), targets, attacks))
    assert found == {"change a mode", "change the times"}


@confined
@pytest.mark.parametrize("known", range(1, landlock.version() + 1))
def test_every_version_of_landlock_s_interface_confines(known: int, tmp_path: Path) -> None:
    """As far as this kernel stands for an older one: no right that the older one lacks is asked for."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "file").write_text("x")
    code = f"""if True:
        import os
        from rl.scorer.sandbox import confine, landlock
        landlock.version = lambda: {known}
        confine.confine(["landlock"], [{str(tmp_path / "inside")!r}], [])
        open({str(tmp_path / "inside" / "file")!r}).read(), open(os.devnull, "w")
        for action in (lambda: open("/etc/passwd"), lambda: open({str(tmp_path / "inside" / "new")!r}, "w")):
            try:
                action()
            except PermissionError:
                continue
            raise SystemExit("it is not confined")
    """
    subprocess.run([sys.executable, "-c", code], check=True)


NEITHER = "Scorers: {Scorer1: {class_name: MathRewardModel, sandbox: SETTING, num_instances: 1}}"


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
        monkeypatch.setattr(support, "offered", lambda has=has: has)
        assert metric("auto") == [f'"{name}"}} {float(name in has)}' for name in support.MECHANISMS]
        support.check_sandbox(settings("auto").Scorers.items())
        said = capsys.readouterr().err
        assert said.startswith(f"Warning: the kernel lacks {lacking}, so") and said.count("\n") == 1
        support.check_sandbox(settings("off").Scorers.items())
        assert capsys.readouterr().err == ""
        with pytest.raises(UserError, match=f"Scorer1.sandbox is 'required', but the kernel lacks {lacking} "):
            support.check_sandbox(settings("required").Scorers.items())
    # The server asks before it starts anything.
    (tmp_path / "a.yaml").write_text(NEITHER.replace("SETTING", "required"))
    with pytest.raises(SystemExit) as ended:
        main(["-c", str(tmp_path / "a.yaml"), "--port", "0"])
    assert ended.value.code == 2 and "sandbox is 'required'" in capsys.readouterr().err
    monkeypatch.setattr(support, "offered", lambda: support.MECHANISMS)
    assert metric("auto") == ['"landlock"} 1.0', '"seccomp"} 1.0']
    assert metric("off") == ['"landlock"} 0.0', '"seccomp"} 0.0']
    support.check_sandbox(settings("required").Scorers.items())
    assert capsys.readouterr().err == ""


def test_the_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "reward.py").touch()
    named = {"class_name": "PythonRewardModel", "task": "own", "function": f"{tmp_path}/reward.py:score"}
    # YAML 1.1 reads an `off` without quotes as false.
    assert TaskSettings.model_validate(named | {"sandbox": False}).sandbox == "off"
    allow = ["network", "subprocess", f"write:{tmp_path}"]
    assert TaskSettings.model_validate(named | {"allow": allow}).allow == tuple(allow)
    for wrong, why in {
        "everything": "has 'everything', which is none of network, subprocess and write:PATH",
        "write:/none/such": "has write:/none/such, but /none/such does not exist",
    }.items():
        with pytest.raises(ValueError, match=why):
            TaskSettings.model_validate(named | {"allow": [wrong]})
    with pytest.raises(ValueError, match="sandbox"):
        ScorerSettings.model_validate({"sandbox": True})


def verdict(program: list, architecture: int, number: int, *arguments: int) -> int:
    """What a filter returns for a call, by the definition of classic BPF."""
    words = [number, architecture, 0, 0]
    for argument in (*arguments, *(0,) * (6 - len(arguments))):
        words += [argument & 0xFFFF_FFFF, argument >> 32]
    accumulator = place = 0
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        if code == 0x20:
            accumulator = words[value // 4]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x25: accumulator > value, 0x35: accumulator >= value}[code]
            place += if_true if holds else if_false


ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_filters_decide_by_architecture_number_and_arguments(machine: str) -> None:
    tables = ("COMPUTING", "MODIFYING", "STARTING", "CONNECTING", "NEVER", "BY_ARGUMENTS")
    groups = {name: system_calls.numbers(getattr(system_calls, name), machine) for name in tables}
    number = {name: value for group in groups.values() for name, value in group.items()}
    assert len(set(number.values())) == len(number), "two names have one number"

    def verdicts(program: list) -> Callable[..., int]:
        assert len(program) <= 4096 and all(jump < 256 for _, *jumps, _ in program for jump in jumps)
        assert verdict(program, 0x40000003, number["read"]) == seccomp.KILL  # i386
        if machine == "x86_64":
            assert verdict(program, ARCHITECTURES[machine], number["read"] | 0x40000000) == seccomp.KILL  # x32
        assert verdict(program, ARCHITECTURES[machine], 451) == seccomp.NO_SUCH_CALL
        return lambda name, *arguments: verdict(program, ARCHITECTURES[machine], number[name], *arguments)

    thread, parent = 0x10000 | 0x100, 0x100
    of = verdicts(seccomp.computing_only(machine, process=77))
    assert all(of(name) == seccomp.ALLOW for name in groups["COMPUTING"])
    refused = ("MODIFYING", "STARTING", "CONNECTING", "NEVER")
    assert {of(name) for table in refused for name in groups[table]} == {seccomp.NO_SUCH_CALL}
    assert of("openat", 0, 0, os.O_RDONLY | os.O_CLOEXEC) == seccomp.ALLOW
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC):
        assert of("openat", 0, 0, flags) == seccomp.NO_ACCESS
    assert (of("clone", thread), of("clone", parent), of("clone3")) == (seccomp.ALLOW, *[seccomp.NO_SUCH_CALL] * 2)
    assert (of("fcntl", 3, 6), of("fcntl", 3, 8), of("fcntl", 3, 10)) == (seccomp.ALLOW, *[seccomp.NO_SUCH_CALL] * 2)
    assert (of("kill", 77), of("kill", 78), of("tgkill", 1)) == (seccomp.ALLOW, *[seccomp.NOT_PERMITTED] * 2)
    assert of("prlimit64", 0, 7, 0) == of("prlimit64", 77, 7, 0) == seccomp.ALLOW
    assert {of("prlimit64", 78, 7, 0), of("prlimit64", 0, 7, 1 << 32), of("prlimit64", 0, 7, 8)} == {
        seccomp.NOT_PERMITTED
    }

    none = verdicts(seccomp.all_but(machine, 77, writes=False, network=False, programs=False))
    assert {none(name) for table in refused for name in groups[table]} == {seccomp.NOT_PERMITTED}
    assert all(none(name) == seccomp.ALLOW for name in groups["COMPUTING"])
    assert (none("clone", thread), none("clone", parent), none("clone3")) == (
        seccomp.ALLOW,
        seccomp.NOT_PERMITTED,
        seccomp.NO_SUCH_CALL,
    )
    assert (none("fcntl", 3, 6), none("fcntl", 3, 8), none("kill", 78)) == (
        seccomp.ALLOW,
        *[seccomp.NOT_PERMITTED] * 2,
    )
    everything = verdicts(seccomp.all_but(machine, 77, writes=True, network=True, programs=True))
    assert all(everything(name) == seccomp.ALLOW for table in refused[:3] for name in groups[table])
    assert {everything(name) for name in groups["NEVER"]} == {seccomp.NOT_PERMITTED}
    assert everything("clone", parent) == everything("clone3") == everything("kill", 78) == seccomp.ALLOW
    assert everything("prlimit64", 78) == seccomp.NOT_PERMITTED
