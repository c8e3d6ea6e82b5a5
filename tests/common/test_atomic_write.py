"""Files and folders that are replaced whole or not at all."""

import pytest

from rl.common.atomic_write import replacing, write_text
from rl.common.errors import UserError


def test_a_file_and_a_folder_are_replaced_whole_or_stay(tmp_path, full_disk):
    file, folder = tmp_path / "file", tmp_path / "folder"
    for content in ("old", "new"):
        write_text(file, content)
        with replacing(folder) as temporary:
            assert temporary.name.startswith(".")
            temporary.mkdir()
            (temporary / content).touch()
        assert file.read_text() == content and [path.name for path in folder.iterdir()] == [content]
    with pytest.raises(ZeroDivisionError), replacing(file) as temporary, replacing(folder) as part:
        temporary.write_text("half")
        part.mkdir()
        (part / "half").touch()
        1 / 0  # noqa: B018
    with full_disk(0), pytest.raises(UserError, match="file cannot be written .File too large.: make room"):
        write_text(file, "half")
    assert file.read_text() == "new" and [path.name for path in folder.iterdir()] == ["new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
