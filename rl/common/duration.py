"""Durations in words."""


def duration(seconds: float) -> str:
    """2.345 -> "2.35 s", 150 -> "2 min", 7500 -> "2 h 5 min"."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
