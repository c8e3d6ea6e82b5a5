"""The demo's scorer server, on a free port of this machine."""

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from rl.common.errors import UserError
from rl.common.processes import end_process_tree

REPOSITORY = Path(__file__).resolve().parents[2]


class ScorerServer:
    """Context manager: a running scorer server; yields its address.

    Args:
        out: folder for its log (out/logs/scorer.log) and its address file.
        databases: the folder that db_ids are relative to.
    """

    def __init__(self, out: Path, databases: Path):
        (out / "logs").mkdir(parents=True, exist_ok=True)
        self.log, self.address_file = out / "logs" / "scorer.log", out / "scorer.address"
        server = REPOSITORY / "rl" / "scorer" / "scorer_server_without_ray.py"
        self.command = [
            *(sys.executable, str(server), "-c", str(server.with_name("sql.yaml")), "--port", "0"),
            *("--database-path", str(databases), "--address-file", str(self.address_file)),
        ]

    def __enter__(self) -> str:
        self.address_file.unlink(missing_ok=True)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )
        try:
            return self._wait()
        except BaseException:
            end_process_tree(self.process)
            raise

    def __exit__(self, *exception) -> None:
        end_process_tree(self.process)

    def _wait(self, seconds: float = 30.0) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.address_file.exists():
                address = f"http://{self.address_file.read_text().strip()}"
                with urllib.request.urlopen(f"{address}/heartbeat", timeout=5) as answer:
                    if answer.status == 200:
                        return address
            time.sleep(0.1)
        raise UserError(f"The scorer server did not start within {seconds:.0f} s; its log is {self.log}.")
