"""The plan of a run that is about to start: one line, and the engine settings with which the run fits."""

import os
import sys

from rl.common.errors import UserError
from rl.configuration.run import Run
from rl.planning.choice import advice, planned
from rl.planning.gpus import assumed_gpu
from rl.planning.model_shape import model_shape
from rl.planning.plan import Plan
from rl.planning.run_settings import DECIDED, OVERRIDES, RunSettings, run_settings
from rl.planning.text import one_line


def plan_at_start(run: Run) -> list[str]:
    """Print the plan's line, and a warning if nothing that was left open makes the run fit.

    Returns:
        Overrides for those of the engine's settings that the plan has changed. A plan that cannot be made stops nothing.
    """
    if run.device.startswith("cpu"):  # a plan is one for GPUs
        return []
    try:
        plan, chosen = plan_of(run, run.launch.gpu_type)
    except UserError as error:
        sys.stderr.write(f"Plan: not made: {error}\n")
        return []
    sys.stderr.write(f"{one_line(plan, chosen)}\n")
    if problems := plan.problems():
        hint = advice(plan.run, plan.shape, plan.gpu)
        sys.stderr.write(f"Warning: it would not fit (estimated): {problems[0]}: {hint}.\n")
    return [f"{OVERRIDES[name]}={value}" for name, value in chosen.items()]


def plan_of(run: Run, gpu: str) -> tuple[Plan, dict[str, str]]:
    """The plan of a run whose open settings are chosen so that it fits, and those that differ from the defaults.

    Args:
        gpu: a type; empty: this machine's, else the paper's.

    Raises:
        UserError: the plan cannot be made; the sentence says why.
    """
    settings = run_settings(run.program, run.values)
    plan = planned(settings, model_shape(settings.model), assumed_gpu(gpu), _left_open(run, settings))
    before, after = settings.engine_settings(), plan.run.engine_settings()
    return plan, {name: value for name, value in after.items() if value != before[name]}


def _left_open(run: Run, settings: RunSettings) -> list[str]:
    """The engine's settings that neither a variable nor an override sets."""
    overridden = {word.lstrip("+").partition("=")[0] for word in run.given}
    return [
        name
        for name in settings.chosen_from
        if not os.environ.get(name) and not overridden & {OVERRIDES[name], *DECIDED.get(name, ())}
    ]
