"""The head's agent on another node: a Ray actor that runs the scorer there and ends the node."""

import json
import os
from pathlib import Path

from rl.cluster.scorer import ScorerServer
from rl.cluster.settings import Settings
from rl.common.atomic_write import write_text

# Holds the node's folder and its scorer's configuration, databases, address and port. Ray's processes inherit it.
_VARIABLE = "DPH_CLUSTER_NODE"
_END = "end.json"


def environment(settings: Settings, folder: Path, address: str) -> dict[str, str]:
    """Environment variables for the agent on this node."""
    of_scorer = [str(settings.scorer_config), settings.database_path, address, settings.scorer_port]
    return {_VARIABLE: json.dumps([str(folder), *of_scorer])}


def told_to_end(folder: Path) -> tuple[int, str] | None:
    """Exit code and sentence from the head; the sentence is empty unless it rejects this node."""
    file = folder / _END
    return tuple(json.loads(file.read_text())) if file.exists() else None


class NodeAgent:
    """The head runs this class as a Ray actor on the node.

    Args:
        scores: whether to start a scorer server.
    """

    def __init__(self, scores: bool):
        folder, config, databases, address, port = json.loads(os.environ[_VARIABLE])
        self._folder = Path(folder)
        self._scorer = ScorerServer(Path(config), databases, address, port, self._folder) if scores else None

    def scorer_address(self, seconds: float) -> str:
        """Wait until the scorer answers, and return its address; UserError if it does not answer in time."""
        assert self._scorer is not None  # the head asks only agents with a scorer
        return self._scorer.wait_until_ready(seconds)

    def end(self, exit_code: int, sentence: str) -> None:
        """Let the launcher of this node end."""
        write_text(self._folder / _END, json.dumps([exit_code, sentence]))
