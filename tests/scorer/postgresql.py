"""A PostgreSQL server of the tests' own: a temporary cluster on a local socket and a port, not run as root."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.conftest import free_port

# An installed server's, on Debian beside the PATH.
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))


class Postgresql:
    """The server: `owner` may do everything, `reader` may read. Skips the test where there is none."""

    def __init__(self) -> None:
        pytest.importorskip("psycopg")
        initdb = shutil.which("initdb", path=os.pathsep.join([*map(str, reversed(PROGRAMS)), os.environ["PATH"]]))
        if initdb is None:
            pytest.skip(
                "PostgreSQL is not installed: run tests/scorer/install_postgresql.sh, or make test-all, which does"
            )
        self._bin = Path(initdb).resolve().parent
        self.folder = Path(tempfile.mkdtemp(prefix="dph-postgresql-"))
        self.folder.chmod(0o755)
        self.port = free_port()
        # initdb and the server refuse root.
        self._as = (
            {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []} if not os.getuid() else {}
        )
        if self._as:
            shutil.chown(self.folder, "nobody")
        initialised = [initdb, "-D", self.folder / "data", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C"]
        subprocess.run([*initialised, "--no-sync"], check=True, capture_output=True, cwd="/", **self._as)
        self._process: subprocess.Popen | None = None
        self.start()
        self.run("postgres", "CREATE ROLE reader LOGIN", "CREATE ROLE guest LOGIN CONNECTION LIMIT 0")

    @property
    def connection(self) -> str:
        """libpq's connection string for the scorer."""
        return f"host={self.folder} port={self.port} user=reader"

    def start(self) -> None:
        options = ["-c", "fsync=off", "-c", f"port={self.port}", "-c", "listen_addresses=127.0.0.1"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.folder / "data", "-k", self.folder, *options],
                stdout=log,
                stderr=log,
                cwd="/",
                process_group=0,
                **self._as,
            )
        waited = ["pg_isready", "-q", "-h", str(self.folder), "-p", str(self.port)]
        for _ in range(600):
            if subprocess.run([self._bin / waited[0], *waited[1:]]).returncode == 0:
                return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            signal.sigtimedwait([], 0.1)
        raise AssertionError("PostgreSQL did not start")

    def signal(self, number: int) -> None:
        """To the server and every process of its connections."""
        pids = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        for pid, parent in (map(int, line.split()) for line in pids.splitlines()):
            if self._process.pid in (pid, parent):
                os.kill(pid, number)

    def stop(self) -> None:
        """SIGINT ends every connection."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(timeout=30)
            self._process = None

    def run(self, database: str, *statements: str) -> list[tuple]:
        """Run statements as owner; the rows of the last, if it returns any."""
        import psycopg

        with psycopg.connect(
            host=str(self.folder), port=self.port, user="owner", dbname=database, autocommit=True
        ) as of:
            for statement in statements:
                cursor = of.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def make(self, database: str, script: str) -> None:
        """A database that `reader` may read."""
        self.run("postgres", f"CREATE DATABASE {database}")
        self.run(database, script, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader, guest")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)
