"""Bytes as text."""

GB = 10**9


def in_bytes(count: float) -> str:
    """2.5e9 -> "2.5 GB"."""
    return f"{count / GB:.3g} GB" if count >= GB else f"{count / 1e6:.3g} MB"
