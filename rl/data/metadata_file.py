"""F.meta.json, which says how F.parquet (prompts) or F.jsonl (samples) was made."""

from pathlib import Path

from rl.common.errors import UserError
from rl.data.json_text import loads_or_none


def metadata_path(file: Path) -> Path:
    return file.with_suffix(".meta.json")


def check_metadata(file: Path, wanted: str) -> None:
    """Reject a file's name if another kind of file has its metadata there.

    Args:
        file: the file that will be written.
        wanted: the `format` of its metadata.
    """
    path = metadata_path(file)
    try:
        content = loads_or_none(path.read_bytes())
    except OSError:  # The file does not exist, or it cannot be written either.
        return
    found = content.get("format") if isinstance(content, dict) else None
    if found is None:
        raise UserError(f"{path} is damaged, or belongs to another program: delete it, or name another file.")
    if found != wanted:
        raise UserError(
            f"{path} is not of the format {wanted} but {found}: it belongs to another file of this name; name another "
            "file."
        )
