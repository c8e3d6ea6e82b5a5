"""Outcomes of scoring a response: the words of the scorer, its client, samples files and reports."""

# A result, or an answer, was compared with the reference.
COMPARED = ("match", "partial", "mismatch")
# The reference itself cannot be evaluated: nothing is said about the response.
GOLD_FAILURES = ("gold_error", "gold_timeout")
OUTCOMES = (*COMPARED, "no_answer", "pred_error", "pred_timeout", *GOLD_FAILURES)
# No score at all: the response must be scored again.
INFRA_ERROR = "infra_error"

CORRECT_TOLERANCE = 1e-6


def is_correct(score: float) -> bool:
    """Whether a score is 1, up to CORRECT_TOLERANCE."""
    return abs(score - 1) <= CORRECT_TOLERANCE
