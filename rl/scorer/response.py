"""The part of a model's response that may hold its answer."""

_THINK, _END_OF_THINKING = "<think>", "</think>"


def without_thinking(response: str) -> str:
    """What follows the last </think>, up to a <think> that is never closed; all of a response that has neither.

    A draft among the thoughts is no answer, and a response that is cut off while it thinks has none.
    """
    return response.rpartition(_END_OF_THINKING)[2].partition(_THINK)[0]
