"""The demo's scorer server, on a free port of this machine."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl.cluster.scorer import is_healthy
from rl.common.errors import UserError
from rl.common.processes import end_process_tree

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 30.0


@contextmanager
def scorer_server(out: Path, databases: Path) -> Iterator[str]:
    """Run a scorer server; yields its address.

    Args:
        out: folder for its log (out/logs/scorer.log) and its address file.
        databases: the folder that db_ids are relative to.

    Raises:
        UserError: it does not start.
    """
    log, address_file = out / "logs" / "scorer.log", out / "scorer.address"
    log.parent.mkdir(parents=True, exist_ok=True)
    address_file.unlink(missing_ok=True)
    server = REPOSITORY / "rl" / "scorer" / "scorer_server_without_ray.py"
    command = [sys.executable, str(server), "-c", str(server.with_name("sql.yaml")), "--port", "0"]
    command += ["--database-path", str(databases), "--address-file", str(address_file)]
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not (address_file.exists() and is_healthy(address := f"http://{address_file.read_text().strip()}")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise UserError(f"The scorer server did not start within {START_SECONDS:.0f} s; its log is {log}.")
            time.sleep(0.1)
        yield address
    finally:
        end_process_tree(process)
