"""eta, the weight of the divergence, in every training step: constant or a schedule."""

import logging
import math
from typing import Any

from rl.common.errors import UserError

logger = logging.getLogger(__name__)

# Schedules that begin with a warm-up, if warmup_steps is not 0. A cosine bends when a resumed run has another number of
# steps (docs/reference/training.md, "What is resumed").
WITH_WARMUP = ("warmup", "cosine")


class EtaSchedule:
    """eta of every training step; steps count from 1.

    With s the step, S the last step, W = warmup_steps and eta = sft_loss_coeff:

    - constant: eta.
    - warmup: eta min(1, s/W).
    - cosine: as warmup up to step w = max(W, 1), which has eta; then with p = (s - w)/(S - w)
      eta (r + (1 - r)(1 + cos(pi p))/2), which is final_ratio r times eta in the last step.

    Args:
        control: `actor.sft_loss_control` (rl/configuration/training.py), validated (checks/objective.py).
        eta: sft_loss_coeff.
    """

    def __init__(self, control: Any, eta: float):
        self.control, self.eta = control, eta
        self.total_steps = 0

    def span(self, total_steps: int) -> None:
        """Set the number of training steps of the whole run, which is known only when the data are loaded.

        Raises:
            UserError: the warm-up leaves no step to a cosine.
        """
        self.total_steps, warmup = total_steps, self.control.warmup_steps
        words = f"actor.sft_loss_control.warmup_steps={warmup} is too long for the run's {total_steps} steps"
        if self.control.type == "cosine" and warmup >= total_steps:
            raise UserError(f"{words}, and leaves none to type=cosine: use fewer.")
        if self.control.type == "warmup" and warmup > total_steps:
            logger.warning("%s: eta is at most %.3g", words, self.value(total_steps))

    def value(self, step: int) -> float:
        """eta of the update in `step`."""
        match self.control.type:
            case "warmup":
                return self.eta * self._warmup(step)
            case "cosine":
                return self.eta * (self._warmup(step) if step < self.control.warmup_steps else self._cosine(step))
        return self.eta

    def _warmup(self, step: int) -> float:
        return min(1.0, step / max(self.control.warmup_steps, 1))

    def _cosine(self, step: int) -> float:
        first = max(self.control.warmup_steps, 1)
        progress = min(1.0, (step - first) / max(self.total_steps - first, 1))
        ratio = self.control.final_ratio
        return ratio + (1 - ratio) * (1 + math.cos(math.pi * progress)) / 2
