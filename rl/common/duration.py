"""Durations in words."""


def duration(seconds: float) -> str:
    """0.009 -> "under 0.1 s", 2.345 -> "2.3 s", 23.4 -> "23 s", 150 -> "2 min", 7500 -> "2 h 5 min"."""
    if 0 < seconds < 0.1:
        return "under 0.1 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
