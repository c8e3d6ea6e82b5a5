"""When a response is correct: its score is 1 within a tolerance."""

CORRECT_TOLERANCE = 1e-6


def is_correct(score: float) -> bool:
    return abs(score - 1) <= CORRECT_TOLERANCE
