"""`python -m rl.cluster [options] -- COMMAND`: one node of a run; the launcher calls it."""

import argparse
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from rl.cluster.nodes import run_alone, run_head, run_worker
from rl.cluster.programs import ending_all, say
from rl.cluster.ray_node import HEAD_RANK
from rl.common.cli import user_errors_exit
from rl.common.errors import file_errors
from rl.configuration.methods import files


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: the command's, 2 after a UserError, 1 if Ray was lost, 128 + n after signal n."""
    with user_errors_exit():
        settings = parse(arguments)
        if settings.nodes > 1:
            # Without a token, anybody who reaches Ray's port could run code on every node.
            os.environ["RAY_AUTH_MODE"] = "token"
        parent = os.environ.get("RAY_TMPDIR") or "/tmp"
        with file_errors(f"RAY_TMPDIR={parent}", "written", "name a folder that can"):
            folder = Path(tempfile.mkdtemp(prefix="dph-", dir=parent))
        code = 1
        try:
            with ending_all():
                code = _node(settings, folder)
        finally:
            if code and any(folder.iterdir()):
                say(f"logs of what was started here: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
        return code


def _node(settings: argparse.Namespace, folder: Path) -> int:
    work = run_alone if settings.nodes == 1 else run_head if settings.rank == HEAD_RANK else run_worker
    try:
        return work(settings, folder)
    except ConnectionError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the command line. Each option's help names what the launcher takes it from."""
    parser = argparse.ArgumentParser(
        prog="python -m rl.cluster",
        description="Run COMMAND on the first of several nodes, with Ray on all and scorer servers on the others.",
    )
    add = parser.add_argument
    given = partial(add, required=True)  # rl/launch/nodes.py always passes it
    given("--nodes", type=int, help="number of nodes (NNODES)")
    given("--rank", type=int, help="this node's; 0 is the head's (NODE_RANK)")
    given("--head", help="address of the head (MASTER_ADDR)")
    given("--scorer-nodes", type=int, help="the last ranks, which only score (launch.scorer_nodes)")
    given("--gpus", type=int, help="GPUs of each training node (GPUS_PER_NODE)")
    given("--device", choices=files("device"), help="for training (DEVICE)")
    add("--node-address", type=_optional, help="this node's; default: on the route to the head (launch.node_address)")
    add("--scorer", type=_optional, help="addresses of running servers: none is started (DPH_SCORER)")
    add("--scorer-config", type=Path, help="configuration of the scorers that are started (launch.scorer_config)")
    add("--database-path", type=_optional, help="their databases; default: the configuration's (DATABASE_PATH)")
    given("--scorer-port", type=int, help="the scorers' port; 0: a free one on each node (launch.scorer_port)")
    given("--ray-port", type=int, help="Ray's port on the head (launch.ray_port)")
    given("--wait-seconds", type=float, help="until all are ready (launch.wait_seconds)")
    add("--ray-argument", action="append", default=[], help="further argument of `ray start` (launch.ray_arguments)")
    add("command", nargs="+", metavar="COMMAND", help="after --: what the head runs")
    return parser.parse_args(arguments)


def _optional(text: str) -> str | None:
    return text or None


if __name__ == "__main__":
    sys.exit(main())
