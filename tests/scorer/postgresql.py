"""A PostgreSQL server for the tests: a temporary cluster on a local socket and a port, not run as root."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import free_port

# An installed server's, on Debian beside the PATH.
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))


class Postgresql:
    """The server: `owner` may do everything, `reader` may read. Skips the test if PostgreSQL is not installed."""

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
        self._as: dict[str, Any] = {}
        # initdb and the server refuse root.
        if not os.getuid():
            self._as = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
            shutil.chown(self.folder, "nobody")
        self._call("initdb", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()
        self.run("postgres", "CREATE ROLE reader LOGIN", "CREATE ROLE guest LOGIN CONNECTION LIMIT 0")

    def _call(self, program: str, *arguments: str) -> None:
        command = [self._bin / program, "-D", self.folder / "data", *arguments]
        # No pipes: the server would inherit them.
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **self._as)

    @property
    def connection(self) -> str:
        """libpq's connection string for the scorer."""
        return f"host={self.folder} port={self.port} user=reader"

    def start(self) -> None:
        options = f"-k {self.folder} -p {self.port} -c fsync=off -c listen_addresses=127.0.0.1"
        self._call("pg_ctl", "start", "-w", "-t", "60", "-l", str(self.folder / "log"), "-o", options)

    def signal(self, number: int) -> None:
        """Send a signal to the server and every process of its connections."""
        server = psutil.Process(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]))
        for process in (server, *server.children()):
            process.send_signal(number)

    def stop(self) -> None:
        """Stop the server and every connection."""
        self._call("pg_ctl", "stop", "-w", "-m", "fast")

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
