"""A base run that an earlier evaluation sampled, so that the base is not sampled again."""

from pathlib import Path

from rl.common.errors import UserError
from rl.data.sample_file import SampleMetadata, read_metadata
from rl.evaluation.spec import BASE, BASE_AGAIN

# What must be the same so that two models can be compared; the seed may differ.
COMPARED = ("temperature", "top_p", "top_k", "n", "max_response_length", "data_files", "overlong_ids", "rows")


def stored_base(folder: Path, wanted: dict[str, SampleMetadata]) -> dict[str, dict[str, Path]]:
    """The files of a stored base run: {base: {file name: path}}, with base_again where that is stored too.

    Args:
        folder: an evaluation's output folder (with base/ in it), or base/ itself.
        wanted: what the methods that it is compared with are sampled on and how, by the file's name (bird.jsonl, ...).

    Raises:
        UserError: a file is missing or unfinished, or was sampled on other prompts or with other settings.
    """
    if not folder.is_dir():
        raise UserError(f"evaluate.base={folder} is no folder: name the output folder of an earlier evaluation.")
    base = folder / BASE if (folder / BASE).is_dir() else folder
    found = {BASE: {name: base / name for name in wanted}}
    again = base.parent / BASE_AGAIN
    sampled = [name for name in wanted if not name.endswith(".greedy.jsonl")]
    if base.name == BASE and all((again / name).is_file() for name in sampled):
        found[BASE_AGAIN] = {name: again / name for name in sampled}
    for files in found.values():
        for name, path in files.items():
            _require_same(path, wanted[name])
    return found


def _require_same(path: Path, wanted: SampleMetadata) -> None:
    if not path.is_file():
        raise UserError(f"The stored base run has no {path}: evaluate the base on this split too, with n and greedy.")
    stored = read_metadata(path)
    for name in COMPARED:
        own, other = (_comparable(name, metadata) for metadata in (stored, wanted))
        if own != other:
            raise UserError(
                f"The stored base run {path} cannot be compared: its {name} is {own}, here it is {other}; use the same "
                "data and settings, or sample the base anew."
            )
    with open(path, "rb") as file:
        lines = sum(1 for _ in file)
    if lines != stored.rows * stored.n:
        raise UserError(
            f"The stored base run {path} holds {lines} of {stored.rows * stored.n} samples: finish it, it resumes."
        )


def _comparable(name: str, metadata: SampleMetadata) -> object:
    value = getattr(metadata, name)
    return sorted(value.values()) if name == "data_files" else value
