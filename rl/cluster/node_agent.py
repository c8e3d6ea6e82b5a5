"""The head's agent on another node: a Ray actor that serves the scorer there and ends the node."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from rl.cluster.scorer import ScorerServer
from rl.cluster.settings import Settings
from rl.common.atomic_write import write_text

# Ray's processes on a node inherit it: the node's own settings.
_VARIABLE = "DPH_CLUSTER_NODE"
_END = "end.json"


def environment(settings: Settings, folder: Path, address: str) -> dict[str, str]:
    """What an agent reads on its node."""
    node = {
        "folder": str(folder),
        "config": str(settings.scorer_config),
        "host": address,
        "port": settings.scorer_port,
    }
    return {_VARIABLE: json.dumps(node)}


@dataclass(frozen=True)
class End:
    """How a node is to end; the sentence is empty where the head has said why."""

    exit_code: int
    sentence: str = ""


def told_to_end(folder: Path) -> End | None:
    """What the head has said to this node's agent."""
    file = folder / _END
    return End(**json.loads(file.read_text())) if file.exists() else None


class NodeAgent:
    """To be made a Ray actor on the node.

    Args:
        scores: whether to serve a scorer; it starts at once.
    """

    def __init__(self, scores: bool):
        node = json.loads(os.environ[_VARIABLE])
        self._folder = Path(node["folder"])
        self._scorer = None
        if scores:
            self._scorer = ScorerServer(node["config"], node["host"], node["port"], self._folder / "scorer.log")

    def scorer_address(self, seconds: float) -> str:
        """The scorer's address, once it answers; UserError when it does not within so many seconds."""
        return self._scorer.wait_until_ready(seconds)

    def end(self, exit_code: int, sentence: str) -> None:
        """Let the launcher of this node end."""
        write_text(self._folder / _END, json.dumps({"exit_code": exit_code, "sentence": sentence}))
