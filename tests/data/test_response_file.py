"""Responses from elsewhere, as other programs and hands write them."""

from pathlib import Path

import pytest

from rl.common.errors import UserError
from rl.data.response_file import GivenResponse, read_responses

LINE = '{"id": 1, "response": "Müller"}'


@pytest.mark.parametrize(
    "content",
    [
        f"{LINE}\n{LINE}\n".encode(),
        f"{LINE}\r\n{LINE}".encode(),
        f"{LINE}\n{LINE}\n".encode("utf-8-sig"),
        f"\n{LINE}\n\n{LINE}\n\n".encode(),
    ],
    ids=["plain", "crlf", "byte order mark", "blank lines"],
)
def test_json_lines_of_any_editor(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "expert answers ü.jsonl"
    path.write_bytes(content)
    assert list(read_responses(path)) == 2 * [GivenResponse(1, "Müller", None)]


@pytest.mark.parametrize(
    "content",
    [f"{LINE}\n{LINE[:-5]}".encode(), f"{LINE}\n{LINE}\n".encode("latin-1"), f"[\n{LINE}\n]".encode()],
    ids=["torn", "not UTF-8, whose letters must not be replaced", "a list"],
)
def test_what_is_not_a_line_of_json_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "given.jsonl"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"given.jsonl row [12] is not a JSON object: .* in UTF-8"):
        list(read_responses(path))
