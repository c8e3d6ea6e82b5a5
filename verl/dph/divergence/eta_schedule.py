"""eta, the weight of the divergence, in every training step: constant, a schedule, or a controller with a KL budget."""

import logging
import math
from dataclasses import make_dataclass
from typing import Any

from rl.common.errors import UserError
from rl.configuration.setting import dataclass_fields
from rl.configuration.training import ETA, REHEARSAL

logger = logging.getLogger(__name__)

# The relative error of the KL is clipped to this much either way (Ziegler et al. 2019, section 2.2).
ERROR_CLIP = 0.2
# Schedules that begin with a warm-up, if warmup_steps is not 0.
WITH_WARMUP = ("warmup", "cosine")
# Schedules whose eta depends on the number of steps of the whole run, which a resumed run must therefore keep.
SPAN_THE_RUN = ("cosine",)


_Settings: Any = make_dataclass("_Settings", dataclass_fields(REHEARSAL, ETA), frozen=True)


class EtaControl(_Settings):
    """`actor.sft_loss_control` (rl/configuration/training.py)."""


class EtaSchedule:
    """eta of every training step; steps count from 1.

    With s the step, S the last step, W = warmup_steps and eta = sft_loss_coeff:

    - constant: eta.
    - warmup: eta min(1, s/W).
    - cosine: as warmup up to step w = max(W, 1), which has eta; then with p = (s - w)/(S - w)
      eta (r + (1 - r)(1 + cos(pi p))/2), which is final_ratio r times eta in the last step.
    - target_kl: starts at eta; after every update with a measured KL
      eta <- clip(eta (1 + gain e), min_coeff, max_coeff), e = clip(KL/target_kl - 1, -0.2, 0.2),
      the proportional controller of log eta of Ziegler et al. 2019, "Fine-Tuning Language Models from Human
      Preferences" (arXiv 1909.08593, section 2.2, with gain 0.1), with bounds. With more KL than the budget eta grows
      and holds the policy closer to pi_ref; with less it shrinks, down to min_coeff.

    Args:
        control: the settings, validated (checks/objective.py).
        eta: sft_loss_coeff.
    """

    def __init__(self, control: EtaControl, eta: float):
        self.control, self.eta = control, eta
        self.controlled = eta
        self.total_steps = 0

    def span(self, total_steps: int) -> None:
        """Set the number of training steps of the whole run, which is known only when the data are loaded.

        Raises:
            UserError: the warm-up leaves no step to a schedule that spans the run.
        """
        if self.control.type in SPAN_THE_RUN and self.control.warmup_steps >= total_steps:
            raise UserError(
                f"actor.sft_loss_control.warmup_steps={self.control.warmup_steps} leaves nothing of the run's "
                f"{total_steps} steps to type={self.control.type}: use fewer."
            )
        if self.control.type == "warmup" and self.control.warmup_steps > total_steps:
            logger.warning(
                "eta is at most %.3g: actor.sft_loss_control.warmup_steps=%d, and the run has %d steps",
                self.value(total_steps),
                self.control.warmup_steps,
                total_steps,
            )
        self.total_steps = total_steps

    def value(self, step: int) -> float:
        """eta of the update in `step`."""
        match self.control.type:
            case "target_kl":
                return self.controlled
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

    def observe(self, kl: float) -> None:
        """Update the controller with the KL of an update; only target_kl uses it.

        Args:
            kl: KL(pi_ref || pi_theta) on its D_pef rows, nats per token, 0 or more. With sft_loss_estimator=sampled it
                is the mean of k3 over the stored tokens, linear above a log-ratio of 1, which underestimates the KL of
                a policy that has moved far.

        Raises:
            UserError: with target_kl, it is not a number.
        """
        if self.control.type != "target_kl" or self.control.target_kl is None:
            return
        if math.isnan(kl):
            raise UserError(
                "KL(pi_ref || pi_theta) on D_pef is not a number, so that eta cannot follow it: training has diverged, "
                "lower the learning rate and resume from an earlier checkpoint."
            )
        error = min(max(kl / self.control.target_kl - 1, -ERROR_CLIP), ERROR_CLIP)
        self.controlled = self._clipped(self.controlled * (1 + self.control.gain * error))

    def _clipped(self, eta: float) -> float:
        return min(max(eta, self.control.min_coeff), self.control.max_coeff)

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint. Only the controller has one: a schedule follows from the step."""
        return {"type": self.control.type, "controlled": self.controlled}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken, within the bounds of this run.

        Raises:
            ValueError: when it belongs to another type of control.
        """
        if state["type"] != self.control.type:
            raise ValueError(f"the saved coefficient has type {state['type']}, this run has {self.control.type}")
        if self.control.type == "target_kl":
            self.controlled = self._clipped(state["controlled"])
