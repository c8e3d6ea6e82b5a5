"""eta, the weight of the divergence, in every training step: constant, a schedule, or a controller with a KL budget."""

import math
from dataclasses import dataclass
from typing import Any

from rl.common.errors import UserError

TYPES = ("constant", "warmup", "cosine", "target_kl")

# The relative error of the KL is clipped to this much either way (Ziegler et al. 2019, section 2.2).
ERROR_CLIP = 0.2

_NAME = "actor.sft_loss_control"


@dataclass(frozen=True)
class CoefficientControl:
    """`actor.sft_loss_control` (see verl/dph/config/dph_trainer.yaml for each)."""

    type: str = "constant"
    warmup_steps: int = 0
    final_ratio: float = 0.0
    target_kl: float | None = None
    min_coeff: float = 1e-4
    max_coeff: float = 1.0
    gain: float = 0.1


class Coefficient:
    """eta of every training step; steps count from 1.

    With s the step, S the last step, W = warmup_steps and eta = sft_loss_coeff:

    - constant: eta.
    - warmup: eta min(1, s/W).
    - cosine: as warmup up to step w = max(W, 1), which has eta; then with p = (s - w)/(S - w)
      eta (r + (1 - r)(1 + cos(pi p))/2), which is final_ratio r times eta in the last step.
    - target_kl: starts at eta; after every update with a measured KL
      eta <- clip(eta (1 + gain e), min_coeff, max_coeff), e = clip(KL/target_kl - 1, -0.2, 0.2),
      the proportional controller of log eta of Ziegler et al. 2019, "Fine-Tuning Language Models from Human
      Preferences" (arXiv 1909.08593, section 2.2, there with gain 0.1), with bounds. More KL than the budget: eta
      grows, the policy is held closer to pi_ref; less: eta shrinks, down to min_coeff, and leaves the policy free.

    Args:
        control: the settings.
        eta: sft_loss_coeff.
        total_steps: training steps of the whole run.

    Raises:
        UserError: a setting is impossible.
    """

    def __init__(self, control: CoefficientControl, eta: float, total_steps: int):
        check(control, eta)
        if control.type == "cosine" and control.warmup_steps >= total_steps:
            raise UserError(
                f"{_NAME}.warmup_steps={control.warmup_steps} leaves nothing of the run's {total_steps} steps to the "
                "cosine: use fewer."
            )
        self.control, self.eta, self.total_steps = control, eta, total_steps
        self.controlled = eta

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
        """Take in what an update measured; only target_kl uses it.

        Args:
            kl: KL(pi_ref || pi_theta) on its D_pef rows, nats a token. On sampled tokens an estimate, which may be
                negative.

        Raises:
            UserError: with target_kl, it is not a number.
        """
        if self.control.type != "target_kl":
            return
        if math.isnan(kl):
            raise UserError(
                "KL(pi_ref || pi_theta) on D_pef is not a number, so that eta cannot follow it: training has diverged, "
                "lower the learning rate and resume from an earlier checkpoint."
            )
        error = min(max(kl / self.control.target_kl - 1, -ERROR_CLIP), ERROR_CLIP)
        self.controlled = self._bounded(self.controlled * (1 + self.control.gain * error))

    def _bounded(self, eta: float) -> float:
        return min(max(eta, self.control.min_coeff), self.control.max_coeff)

    def state_dict(self) -> dict[str, str | float]:
        """What a resumed run needs, as plain values: a schedule follows from the step, the controller has its eta."""
        return {"type": self.control.type, "controlled": self.controlled}

    def load_state_dict(self, state: dict[str, str | float]) -> None:
        """Continue where `state` was taken; bounds that were narrowed since hold at once.

        Raises:
            ValueError: when it belongs to another type of control.
        """
        if state["type"] != self.control.type:
            raise ValueError(f"the saved coefficient has type {state['type']}, this run has {self.control.type}")
        if self.control.type == "target_kl":
            self.controlled = self._bounded(state["controlled"])


def check(control: Any, eta: float) -> None:
    """Refuse settings that cannot work or would do nothing.

    Args:
        control: a CoefficientControl, or a DictConfig with its keys.
        eta: sft_loss_coeff.

    Raises:
        UserError: naming the setting, what was found and what to do.
    """
    if control.type not in TYPES:
        raise UserError(f"{_NAME}.type={control.type!r} is unknown: use one of {', '.join(TYPES)}.")
    whole = _is_whole(control.warmup_steps) and control.warmup_steps >= 0
    _require(whole, control, "warmup_steps", "a whole number, 0 or more")
    for name in ("final_ratio", "min_coeff", "max_coeff", "gain"):
        _require(_is_number(getattr(control, name)), control, name, "a number")
    _require(0 <= control.final_ratio <= 1, control, "final_ratio", "a share of sft_loss_coeff, from 0 to 1")
    if control.type == "warmup":
        _require(control.warmup_steps > 0, control, "warmup_steps", "at least 1 with type=warmup")
    elif control.type != "cosine":
        wanted = f"0 with type={control.type}, which has no warm-up"
        _require(control.warmup_steps == 0, control, "warmup_steps", wanted)
    if control.type != "target_kl":
        _require(control.target_kl is None, control, "target_kl", f"null with type={control.type}; use type=target_kl")
        return
    _check_controller(control, eta)


def _check_controller(control: Any, eta: float) -> None:
    given = _is_number(control.target_kl) and control.target_kl > 0
    _require(given, control, "target_kl", "a positive budget in nats per token with type=target_kl")
    _require(control.min_coeff > 0, control, "min_coeff", "positive: a factor never leads away from 0")
    _require(control.max_coeff >= control.min_coeff, control, "max_coeff", f"at least min_coeff={control.min_coeff}")
    # Below 1 / ERROR_CLIP, so that the factor 1 + gain e stays positive.
    _require(0 < control.gain < 1 / ERROR_CLIP, control, "gain", f"between 0 and {1 / ERROR_CLIP:g}, both excluded")
    if not control.min_coeff <= eta <= control.max_coeff:
        raise UserError(
            f"actor.sft_loss_coeff={eta} is where {_NAME}.type=target_kl starts, and must lie between min_coeff="
            f"{control.min_coeff} and max_coeff={control.max_coeff}."
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(holds: bool, control: Any, name: str, wanted: str) -> None:
    if not holds:
        raise UserError(f"{_NAME}.{name}={getattr(control, name)!r} must be {wanted}.")
