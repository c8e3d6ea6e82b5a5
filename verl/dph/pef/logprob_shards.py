"""Reference log-probs of a store that is being written: a folder with a file per part, so that a run can resume.

A run that dies loses only the part it was computing. Each file (safetensors) names the rows, the model and the settings
that it belongs to by a hash; a file of others is computed again and replaced.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from tqdm import tqdm

from rl.common.errors import UserError
from verl.dph.pef.store import Row, rows_digest, stored_dtype

# What the engine computes for a list of rows: by the name of a Row's field, one tensor per row.
Compute = Callable[[list[Row]], dict[str, list[torch.Tensor]]]


def fill_in_parts(rows: list[Row], compute: Compute, *, folder: Path, size: int, origin: dict) -> int:
    """Set the fields that `compute` returns in every row, `size` rows at a time; each part is written before the next.

    Args:
        folder: of the parts; created if missing, left for the caller to delete.
        size: rows per part. The result does not depend on it, but parts of another size are not found again.
        origin: model and settings that `compute` depends on (JSON).

    Returns:
        How many rows were there already.

    Raises:
        UserError: a part cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = 0
    with tqdm(total=len(rows), desc="reference log-probs", unit="row") as progress:
        for number, start in enumerate(range(0, len(rows), size)):
            part = rows[start : start + size]
            path, key = folder / f"{number:05}.safetensors", _key(part, origin)
            values = _read(path, key, part)
            if values is None:
                values = {name: [v.to(stored_dtype(name)) for v in of_rows] for name, of_rows in compute(part).items()}
                _write(path, key, values)
            else:
                found += len(part)
            for name, of_rows in values.items():
                for row, value in zip(part, of_rows, strict=True):
                    setattr(row, name, value)
            progress.update(len(part))
    return found


def _key(rows: list[Row], origin: dict) -> str:
    digest = rows_digest(rows)
    digest.update(json.dumps(origin, sort_keys=True).encode())
    return digest.hexdigest()


def _read(path: Path, key: str, rows: list[Row]) -> dict[str, list[torch.Tensor]] | None:
    """The values of a part, None when its file is missing, unreadable, or of other rows or another origin."""
    try:
        with safe_open(path, "pt") as file:
            if (file.metadata() or {}).get("key") != key:
                return None
            lengths = [len(row.response) for row in rows]
            return {name: list(file.get_tensor(name).split(lengths)) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        return None


def _write(path: Path, key: str, values: dict[str, list[torch.Tensor]]) -> None:
    aside = path.with_name(path.name + ".tmp")
    try:
        save_file({name: torch.cat(of_rows) for name, of_rows in values.items()}, aside, metadata={"key": key})
        os.replace(aside, path)
    except (OSError, SafetensorError) as error:
        aside.unlink(missing_ok=True)
        raise UserError(
            f"{path} cannot be written ({error}): make room and re-run the same command to resume."
        ) from error
