"""Outcomes of scoring a response: the words of the scorer, its client, samples files and reports."""

# A result, or an answer, was compared with the reference.
COMPARED = ("match", "partial", "mismatch")
# The reference itself cannot be evaluated, or returns nothing to compare: nothing is said about the response.
GOLD_EMPTY = "gold_empty"
GOLD_FAILURES = ("gold_error", "gold_timeout", GOLD_EMPTY)
OUTCOMES = (*COMPARED, "no_answer", "pred_error", "pred_timeout", *GOLD_FAILURES)
# No score at all: the response must be scored again.
INFRA_ERROR = "infra_error"

# A score is between 0 and 1, and so is a reward, except SkyRL-SQL's for no answer; older servers gave up to 1.25.
LOWEST_REWARD, HIGHEST_REWARD = -1.0, 1.25
CORRECT_TOLERANCE = 1e-6


def is_correct(score: float) -> bool:
    """Whether a score is 1, up to CORRECT_TOLERANCE."""
    return abs(score - 1) <= CORRECT_TOLERANCE
