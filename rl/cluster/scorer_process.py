"""A scorer server on a free port of this machine, for as long as a block runs."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl.cluster.programs import last_line
from rl.cluster.scorer import is_healthy
from rl.common.errors import UserError
from rl.common.processes import end_process_tree

START_SECONDS = 30.0


@contextmanager
def temporary_scorer(config: Path, databases: Path | None, log: Path, python: str = sys.executable) -> Iterator[str]:
    """Run a scorer server; yields its address.

    Args:
        config: its YAML.
        databases: the folder that db_ids are relative to, in place of the configuration's.

    Raises:
        UserError: it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="dph-scorer-") as folder, open(log, "wb") as output:
        address_file = Path(folder, "address")
        command = [python, "-m", "rl.scorer", "-c", str(config), "--port", "0", "--address-file", str(address_file)]
        command += [] if databases is None else ["--database-path", str(databases)]
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            while not (address_file.exists() and is_healthy(address := f"http://{address_file.read_text().strip()}")):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise UserError(f"The scorer does not start: {last_line(log).removeprefix('Error: ')}")
                time.sleep(0.1)
            yield address
        finally:
            end_process_tree(process)
