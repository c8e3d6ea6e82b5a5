"""The messages between the server and its workers: a JSON header and an opaque body over a pair of pipes.

A frame is two 4-byte big-endian lengths, the header and the body. The server never decodes a body, so nothing that a
worker sends is trusted beyond JSON.
"""

import json
import struct
from typing import BinaryIO

LENGTHS = struct.Struct(">II")


def encode(header: dict, body: bytes = b"") -> bytes:
    """One frame."""
    text = json.dumps(header).encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


def read(stream: BinaryIO) -> tuple[dict, bytes] | None:
    """The next frame's (header, body) from a blocking stream, None at its end."""
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    header_size, body_size = LENGTHS.unpack(lengths)
    return json.loads(stream.read(header_size)), stream.read(body_size)
