"""The messages between the server and its workers: a JSON header and an opaque body over a socket.

A frame is two 4-byte big-endian lengths, the header and the body. The server never decodes a body, so nothing that a
worker sends is trusted beyond JSON.
"""

import json
import struct
from typing import BinaryIO

_LENGTHS = struct.Struct(">II")


def encode(header: dict, body: bytes = b"") -> bytes:
    """One frame."""
    text = json.dumps(header).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


def read(stream: BinaryIO) -> tuple[dict, bytes] | None:
    """The next frame's (header, body) from a blocking stream, None at its end."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    header_size, body_size = _LENGTHS.unpack(lengths)
    return json.loads(stream.read(header_size)), stream.read(body_size)


def take(buffer: bytearray, max_bytes: int) -> tuple[dict, bytes] | None:
    """Remove the first frame from `buffer` and return its (header, body); None while it is not complete.

    Raises ValueError for one of more than `max_bytes`, or whose header is no JSON.
    """
    if len(buffer) < _LENGTHS.size:
        return None
    header_size, body_size = _LENGTHS.unpack_from(buffer)
    body_start = _LENGTHS.size + header_size
    end = body_start + body_size
    if end > max_bytes:
        raise ValueError(f"a frame of {end} bytes, more than {max_bytes}")
    if len(buffer) < end:
        return None
    frame = json.loads(bytes(buffer[_LENGTHS.size : body_start])), bytes(buffer[body_start:end])
    del buffer[:end]
    return frame
