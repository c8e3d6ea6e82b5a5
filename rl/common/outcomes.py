"""Outcomes of scoring a response, as named by the scorer, its client, samples files and reports."""

# A result or an answer was compared with the reference.
COMPARED = ("match", "partial", "mismatch")
# The reference cannot be evaluated, or returns nothing to compare, so the response is not judged.
GOLD_EMPTY = "gold_empty"
GOLD_FAILURES = ("gold_error", "gold_timeout", GOLD_EMPTY)
OUTCOMES = (*COMPARED, "no_answer", "pred_error", "pred_timeout", *GOLD_FAILURES)
# The response has no score and must be scored again.
INFRA_ERROR = "infra_error"

# The header of a server's reply that says what decides its verdicts (rl.scorer.config.Settings.verdict_sha256).
VERDICT_HEADER = "X-Verdict-SHA256"

CORRECT_TOLERANCE = 1e-6


def is_correct(score: float) -> bool:
    """Whether a score is 1, up to CORRECT_TOLERANCE."""
    return abs(score - 1) <= CORRECT_TOLERANCE
