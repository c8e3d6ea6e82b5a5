"""Reuse the base samples of an earlier evaluation."""

from dataclasses import replace
from pathlib import Path

from rl.common.errors import UserError
from rl.data.sample_file import SampleMetadata, read_metadata
from rl.evaluation.spec import BASE, BASE_AGAIN
from rl.evaluation.spec_writer import GREEDY


def stored_base(folder: Path, wanted: dict[str, SampleMetadata]) -> dict[str, dict[str, Path]]:
    """Files of a stored base run: {base: {file name: path}}, and base_again if it is stored too.

    Args:
        folder: an evaluation's output folder (with base/ in it), or base/ itself.
        wanted: metadata of the methods that it is compared with, by file name (bird.jsonl, ...).

    Raises:
        UserError: a file is missing, unfinished, or was sampled on other prompts or with other settings.
    """
    if not folder.is_dir():
        raise UserError(f"evaluate.base={folder} is not a folder: give the output folder of an earlier evaluation.")
    base = folder / BASE if (folder / BASE).is_dir() else folder
    found = {BASE: {name: base / name for name in wanted}}
    again = base.parent / BASE_AGAIN
    sampled = [name for name in wanted if not name.endswith(GREEDY)]
    if base.name == BASE and all((again / name).is_file() for name in sampled):
        found[BASE_AGAIN] = {name: again / name for name in sampled}
    for files in found.values():
        for name, path in files.items():
            _require_same(path, wanted[name])
    return found


def _require_same(path: Path, wanted: SampleMetadata) -> None:
    if not path.is_file():
        raise UserError(
            f"The stored base run has no {path}: evaluate the base on this split too, with the same n and greedy."
        )
    stored = read_metadata(path)
    # Everything but the model and the seed.
    ours = replace(wanted, model_hash=stored.model_hash, tokenizer_hash=stored.tokenizer_hash, seed=stored.seed)
    if difference := stored.difference(ours):
        raise UserError(
            f"The stored base run {path} cannot be compared: its {difference}; use the same data and settings, or "
            "sample the base again."
        )
    with open(path, "rb") as file:
        lines = sum(1 for _ in file)
    if lines != stored.rows * stored.n:
        raise UserError(
            f"The stored base run {path} holds {lines} of {stored.rows * stored.n} samples: re-run that evaluation "
            "to resume it."
        )
