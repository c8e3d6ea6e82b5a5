"""What a worker of a task does: it calls the task's function for one response at a time.

Job: {"job": "task", "response", "ground_truth"}; ground_truth is any JSON value. Reply:
- {"outcome": "match" | "partial" | "mismatch" | "no_answer", "score", "pred"}.
- {"outcome": "infra_error", "error"}: the function raised, or returned no score, which judges nothing.
"""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from rl.common.outcomes import is_correct

_PRED_CHARS = 2_000
_DENIED = (
    "; `allow` in its section of the scorer's YAML decides whether it may write, start programs or use the network"
)


class TaskJobs:
    """Answers jobs with `function` of the file `path`, which may import modules of its folder."""

    mapped_bytes = 0

    def __init__(self, path: str, function: str):
        self._function = _load(Path(path), function)

    def reply(self, job: dict, body: bytes) -> tuple[dict, bytes]:
        """The reply's header and an empty body."""
        try:
            return _judged(self._function(job["response"], job["ground_truth"])), b""
        except (Exception, SystemExit) as error:  # exit() would end the worker
            # The errors of urllib, requests and aiohttp are OSErrors too. A file that is not there was not denied.
            hint = _DENIED if isinstance(error, OSError) and not isinstance(error, FileNotFoundError) else ""
            return {"outcome": "infra_error", "error": f"the reward function raised {error!r}"[:300] + hint}, b""


def _load(path: Path, function: str) -> Callable[[str, Any], Any]:
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # the settings take .py files only
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return getattr(module, function)


def _judged(result: Any) -> dict:
    """The header for what a function returned: a number from 0 to 1, or a mapping of `score` and `pred`."""
    score, has_pred, pred = result, False, None
    if isinstance(result, Mapping):
        score, has_pred, pred = result.get("score"), "pred" in result, result.get("pred")
    if not isinstance(score, Real) or score < 0 or not score <= 1:  # also rejects NaN
        return {"outcome": "infra_error", "error": f"the reward function returned {result!r:.200}, not a score of 0..1"}
    if score == 0 and has_pred and pred is None:
        return {"outcome": "no_answer", "score": 0.0, "pred": None}
    outcome = "match" if is_correct(float(score)) else "partial" if score else "mismatch"
    return {"outcome": outcome, "score": float(score), "pred": None if pred is None else str(pred)[:_PRED_CHARS]}
