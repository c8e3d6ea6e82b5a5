"""`python -m rl.launch SCRIPT ARGUMENTS...`: check a run, and start its program (scripts/lib/run.sh).

SCRIPT is a launch script's path or a method's name. With several nodes, rl.cluster runs on each of them.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields

from omegaconf import DictConfig, OmegaConf

from rl.checks import run as checks
from rl.checks.files import asks_scorer
from rl.cluster.nodes import run_node
from rl.cluster.ray_node import Node
from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.configuration.arguments import run_of
from rl.configuration.names import is_cpu, joins_ray, named_device, python
from rl.configuration.run import Run
from rl.configuration.variables import check_variables, forget_empty_variables, known_variables

HELP = """\
experiment=NAME is one of verl/dph/config/experiment, or a file of your own, such as mine/experiment/my_sql.yaml.
KEY=VALUE is a setting (docs/reference/settings.md; docs/reference/cli.md has the environment variables).
--dry-run=config prints all settings with their values, --dry-run the command; neither starts anything.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    script, *rest = sys.argv[1:] if arguments is None else arguments
    with user_errors_exit():
        run = run_of(script, rest)
        if run.help:
            sys.stdout.write(f"{run.usage}\n\n{run.method.description}\n\n{HELP}")
            return
        check_variables(os.environ)
        forget_empty_variables()
        if is_cpu(run.device) and not named_device(run.given):
            sys.stderr.write("No NVIDIA GPU was found: DEVICE=cpu.\n")
        # The first node may still write the files, and checks them; the others wait for it.
        waits = os.environ.get("NODE_RANK", "0") != "0"
        without = checks.OF_FILES if run.dry_run else ("files",) if waits else ()
        checks.check(run.composed, run.program, without=without)
        _start(run)


def _start(run: Run) -> None:
    if run.dry_run:
        sys.stdout.write(OmegaConf.to_yaml(run.config, resolve=True) if run.dry_run == "config" else printed(run))
        batch = checks.batch(checks.Subject(run.composed, run.program))
        checked = "settings and batch" if batch.status == "ok" else f"settings; not the batch, because {batch.found}"
        sys.stderr.write(f"Checked: {checked}. dph doctor checks files, model, store and scorer too.\n")
    else:
        words = [python(), *run.words]
        os.environ.update(run.environment)
        if node := node_of(run):
            sys.exit(run_node(node, words))
        os.execvpe(words[0], words, os.environ)


def printed(run: Run) -> str:
    """The command with its environment, ready to paste."""
    # A placeholder, because the address of the run's own scorer is known only after its start.
    environment = {"DPH_SCORER": "http://HOST:PORT"} | _set_variables() | run.environment
    words = ["env", *(f"{name}={value}" for name, value in environment.items()), python(), *run.words]
    return " \\\n  ".join(shlex.quote(word) for word in words) + "\n"


def _set_variables() -> dict[str, str]:
    """The set variables that decide the run's configuration, without keys, which are secret."""
    return {
        name: os.environ[name]
        for name in known_variables()
        if name in os.environ and name != "DEVICE" and not name.endswith("_KEY")
    }


def node_of(run: Run) -> Node | None:
    """This node, on which rl.cluster starts Ray or a scorer; None if the program needs nothing around it."""
    launch = run.launch
    nodes = launch.nodes
    rank = 0 if launch.node_rank is None and nodes == 1 else launch.node_rank
    if joins_ray():
        if not launch.scorer:
            raise UserError("RAY_ADDRESS names a running Ray: name the scorers in DPH_SCORER too.")
        return None
    _check_complete(launch, nodes, rank)
    if nodes == 1 and (launch.scorer or not asks_scorer(run.composed, run.program)):
        return None  # the program starts its own Ray, and ends it
    own = {"node_rank": rank, "gpus": run.composed.trainer.n_gpus_per_node, "device": run.device}
    return Node(**{field.name: launch[field.name] for field in fields(Node) if field.name not in own}, **own)


def _check_complete(launch: DictConfig, nodes: int, rank: int | None) -> None:
    if rank is None:
        raise UserError(
            f"NNODES={nodes}, but this node's number is not known: set NODE_RANK to 0 on the head and to 1 to "
            f"{nodes - 1} on the others, or NNODES=1 for this machine alone."
        )
    if rank >= nodes:
        raise UserError(f"NODE_RANK={rank} is not between 0 and {nodes - 1}, as NNODES={nodes} requires.")
    if nodes == 1:
        return
    if not launch.head:
        raise UserError(
            f"NNODES={nodes}, but no head is named: set MASTER_ADDR to the address of the node with NODE_RANK=0."
        )
    if not os.environ.get("RAY_AUTH_TOKEN"):
        raise UserError(
            f"NNODES={nodes}, but RAY_AUTH_TOKEN is not set: give all nodes of the run the same secret, for example "
            "a new one from 'openssl rand -hex 32'; Ray accepts no connection without it."
        )


if __name__ == "__main__":
    main()
