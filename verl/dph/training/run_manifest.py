"""Provenance of a run, written beside every checkpoint: code, packages, data, store, model, settings, machines."""

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rl.checks.files import files_of
from rl.common import atomic_write
from rl.common.fingerprint import file_sha256, model_hashes
from rl.common.git_state import git_state
from rl.data.training_run import MANIFEST, MANIFEST_FORMAT
from verl.dph.pef.store import Store

_DATA_KEYS = ("train_files", "val_files", "sft_files", "sft_pt", "sft_anchor_pt")


def manifest_of(config: DictConfig) -> dict[str, Any]:
    """What a run is, when it begins: its files may be others before its first checkpoint.

    The settings that a store is written with, such as data.sft_coverage, need not be those of a run that reads it.

    Args:
        config: verl's trainer settings, resolved.

    Raises:
        UserError: a file of the model or data cannot be read.
    """
    stores, model = files_of(config.data.get("sft_pt")), config.actor_rollout_ref.model
    return {
        "format": MANIFEST_FORMAT,
        "git": git_state(Path(__file__).parent),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages(),
        "settings": OmegaConf.to_container(config, resolve=True),
        "model": {"path": str(model.path)} | model_hashes(model.path, model.tokenizer_path),
        "data": {key: {str(path): file_sha256(path) for path in files_of(config.data.get(key))} for key in _DATA_KEYS},
        "store": Store.load(str(stores[0])).meta if stores else None,
    }


def write_manifest(
    of_run: Mapping[str, Any], folder: str | os.PathLike, *, step: int, resources: dict[str, float]
) -> None:
    """Write folder/manifest.json atomically.

    Args:
        of_run: manifest_of the run.
        step: of the checkpoint in `folder`.
        resources: Ray's, over all nodes.
    """
    content = {**of_run, "step": step, "written": datetime.now(UTC).isoformat(), "ray_resources": resources}
    path = Path(folder) / MANIFEST
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write.write_text(path, json.dumps(content, indent=2, sort_keys=True) + "\n")


def packages() -> dict[str, str]:
    """Versions of all installed distributions by name."""
    found = ((part.metadata["Name"], part.version) for part in importlib.metadata.distributions())
    return {name: version for name, version in sorted(found, key=str) if name}
