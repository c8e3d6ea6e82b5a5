"""The plan of a run: `dph plan`, and the line that a launch script prints (docs/howto/plan.md)."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rl.checks import engine
from rl.checks.estimate import Parts, Workload, engine_needs, phases, problems, seconds, workload
from rl.checks.gpus import GPU_TYPES, GpuType, gpu_type
from rl.checks.main_memory import LESS, Need, memory, need_of
from rl.checks.model_shape import ModelShape, model_shape
from rl.common.duration import duration
from rl.common.errors import UserError
from rl.common.size import GB, in_gb
from rl.configuration.methods import add_experiment
from rl.configuration.names import is_cpu

if TYPE_CHECKING:
    from rl.configuration.run import Run

DOES_NOT_FIT = 1
_LABEL, _COLUMN = 24, 12


@dataclass(frozen=True)
class Plan:
    """A run with the engine settings that were chosen for it.

    Attributes:
        chosen: VARIABLE=VALUE of the settings that differ from the run's own.
    """

    run: Workload
    shape: ModelShape
    gpu: GpuType
    chosen: list[str]

    @property
    def problems(self) -> list[str]:
        return problems(self.run, self.shape, self.gpu)

    @property
    def advice(self) -> str:
        return engine.advice(self.run, self.shape, self.gpu) if self.problems else ""

    @property
    def phases(self) -> dict[str, dict[str, float]]:
        return phases(self.run, self.shape, self.gpu)

    @property
    def seconds(self) -> dict[str, float]:
        return seconds(self.run, self.shape, self.gpu)


def plan_of(run: "Run", gpu: str) -> Plan:
    """The plan of a run: the engine's settings that neither a variable nor an override sets are chosen so that it fits.

    Args:
        gpu: a type; "": this machine's, else the paper's.

    Raises:
        UserError: no plan can be made; the sentence says why.
    """
    try:
        given = workload(run.program, run.values)
    except (KeyError, TypeError) as error:
        raise UserError(f"a setting that the plan reads is missing or not a number ({error}).") from error
    shape, of_type = model_shape(given.model), gpu_type(gpu)
    read = run.variables_in_effect()  # not what a file of the user's sets
    open_ = [
        name
        for name in engine.variables(given)
        if name in read
        and not os.environ.get(name)
        and not run.given_keys & {engine.OVERRIDES[name], *engine.DECIDED.get(name, ())}
    ]
    fitted = (engine.fitting(given, shape, of_type, open_) if open_ else None) or given
    return Plan(fitted, shape, of_type, engine.changes(given, fitted))


def plan_at_start(run: "Run") -> list[str]:
    """Print the plan's line for a run that is about to start, and a warning if it does not fit.

    Returns:
        Overrides for the settings that the plan has chosen; none on a CPU, or if no plan can be made.
    """
    on_cpu = is_cpu(run.device)
    try:
        if on_cpu:
            _warn_of_main_memory(need_of(run.program, run.values))
            return []
        plan = plan_of(run, run.launch.gpu_type)
    except UserError as error:
        if not on_cpu:
            sys.stderr.write(f"Plan: not made: {error}\n")
        return []
    sys.stderr.write(f"{one_line(plan)}\n")
    if plan.problems:
        sys.stderr.write(f"Warning: it would not fit (estimated): {plan.problems[0]}: {plan.advice}.\n")
    named = (word.partition("=") for word in plan.chosen)
    return [f"{engine.OVERRIDES[name]}={value}" for name, _, value in named]


def _warn_of_main_memory(need: Need) -> None:
    total, _ = memory()
    if need.bytes > total:
        needed = f"it needs {in_gb(need.bytes)} of {in_gb(total)} GB of memory"
        sys.stderr.write(f"Warning: it would not fit (estimated): {needed}: {LESS}.\n")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dph plan",
        description="Estimate what a launch script's run holds on each GPU and how long a step takes, or on a CPU\n"
        "(DEVICE=cpu) what it holds in main memory (docs/howto/plan.md). Nothing is started. Settings are\n"
        "environment variables, as for the script itself: MODEL_PATH, GPUS_PER_NODE, ... Exit code: 0 if it fits,\n"
        "1 if not, 2 if no plan can be made.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--gpu",
        default=os.environ.get("GPU_TYPE", ""),
        metavar="TYPE",
        help=f"{', '.join(GPU_TYPES)}, or TYPE-GB such as a100-40 (default: GPU_TYPE, this machine's, else a800)",
    )
    parser.add_argument("--json", action="store_true", help="print bytes and seconds as JSON")
    add_experiment(parser)
    parser.add_argument("script", metavar="SCRIPT", help="a script of scripts/llama or scripts/qwen, or a method")
    parser.add_argument("arguments", nargs="*", metavar="ARG", help="the script's: NAME, numbers, KEY=VALUE")
    return parser


def main(arguments: Sequence[str]) -> int:
    from rl.checks import run as run_checks
    from rl.configuration.arguments import run_of

    # The script takes every other argument, such as ~KEY.
    options, others = parser().parse_known_args(arguments)
    experiment = [f"--experiment={options.experiment}"] if options.experiment else []
    run = run_of(options.script, [*options.arguments, *others, *experiment])
    if not run.named_device:
        run = run.with_overrides(["device=cuda"])  # a plan needs no GPU here
    run_checks.check(run.composed, run.program, without=run_checks.OF_FILES)
    if is_cpu(run.device):
        return _plan_on_a_cpu(need_of(run.program, run.values), options.json)
    plan = plan_of(run, options.gpu)
    sys.stdout.write(json.dumps(as_json(plan), indent=2) + "\n" if options.json else report(plan))
    return DOES_NOT_FIT if plan.problems else 0


def _plan_on_a_cpu(need: Need, as_json: bool) -> int:
    """Print the plan; return the exit code."""
    (total, _), shape = memory(), need.model
    fits = need.bytes <= total
    if as_json:
        model = {"name": shape.name, "parameters": shape.parameters}
        found = {"estimated": True, "model": model, "memory_bytes": total, "bytes": need.parts, "fits": fits}
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return 0 if fits else DOES_NOT_FIT
    does_not = f"Does not fit: it needs {in_gb(need.bytes)} of {in_gb(total)} GB. To make it fit, {LESS}."
    lines = [
        f"{shape.in_words}, on a CPU.",
        "All figures are estimated; docs/howto/plan.md has a measured run beside them, and the time of a step.",
        "",
        *_memory_table("GB", {"run": need.parts}, total / GB),
        "",
        "It fits." if fits else does_not,
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if fits else DOES_NOT_FIT


def one_line(plan: Plan) -> str:
    """What a launch script prints."""
    held = list(plan.phases.items())[:2]
    parts = [f"{sum(parts.values()) / GB:.0f} of {plan.gpu.memory:g} GB in the {name}" for name, parts in held]
    if plan.seconds:
        step = duration(sum(plan.seconds.values()))
        parts.append(f"{step if step.startswith('under') else f'about {step}'} a step")
    sentences = [f"Plan: {', '.join(parts)} on {plan.run.gpus} x {plan.gpu.name} (estimated).", *_choices(plan)]
    return " ".join(sentences)


def _choices(plan: Plan) -> list[str]:
    """Sentences on what the plan assumed or chose because the user left it open."""
    assumed = f"No GPU was found here: {plan.gpu.name} is assumed, GPU_TYPE names another."
    chosen = f"The plan chose {' '.join(plan.chosen)}."
    return [assumed] * plan.gpu.assumed + [chosen] * bool(plan.chosen)


def report(plan: Plan) -> str:
    """The whole plan."""
    run, shape, gpu = plan.run, plan.shape, plan.gpu
    nodes = f"{run.nodes} nodes x {run.gpus_per_node}" if run.nodes > 1 else str(run.gpus_per_node)
    share, needed = run.engine.utilization * gpu.memory * GB, engine_needs(run, shape)
    advice = f" To make it fit, {plan.advice}." if plan.problems else ""
    lines = [
        f"{shape.in_words}, on {nodes} x {gpu.name} ({gpu.memory:g} GB) with {run.attention}.",
        "All figures are estimated (docs/howto/plan.md).",
        *_choices(plan),
        "",
        "  ".join(f"{name}={value}" for name, value in engine.variables(run).items()),
        "",
        *_memory_table("GB per GPU", plan.phases, gpu.memory),
        "",
        f"vLLM's share is {in_gb(share)} GB; it needs {in_gb(needed)} with one row of {run.longest_row} tokens.",
        *_times(plan),
        "",
        f"Does not fit: {'; '.join(plan.problems)}.{advice}" if plan.problems else "It fits.",
    ]
    return "\n".join(lines) + "\n"


def _memory_table(title: str, phases: dict[str, Parts], memory_gb: float) -> list[str]:
    names = dict.fromkeys(name for parts in phases.values() for name in parts)
    held = list(phases.values())
    rows = [_row(f"  {name}", [f"{parts[name] / GB:.1f}" if name in parts else "" for parts in held]) for name in names]
    totals = [f"{sum(parts.values()) / GB:.1f}" for parts in held]
    return [_row(title, list(phases)), *rows, _row(f"of {memory_gb:.3g}", totals)]


def _row(label: str, cells: list[str]) -> str:
    return (f"{label:<{_LABEL}}" + "".join(f"{cell:>{_COLUMN}}" for cell in cells)).rstrip()


def _times(plan: Plan) -> list[str]:
    run = plan.run
    if run.kind != "train":
        return []
    if not plan.seconds:
        return ["", f"No times: the speed of {plan.gpu.name} is not known."]
    row, response = run.row_tokens
    return [
        "",
        "Time of a step",
        *(_row(f"  {name}", [duration(seconds)]) for name, seconds in plan.seconds.items()),
        _row("step", [duration(sum(plan.seconds.values()))]),
        f"Assumed: {run.prompts * run.samples + run.pef_rows} rows of {row} tokens, {response} of them the response; "
        f"{plan.gpu.tflops:g} TFLOP/s.",
    ]


def as_json(plan: Plan) -> dict[str, Any]:
    """Bytes and seconds, and the settings they follow from."""
    return {
        "estimated": True,
        "model": {"name": plan.shape.name, "parameters": plan.shape.parameters},
        "gpu": {"name": plan.gpu.name, "memory_gb": plan.gpu.memory, "assumed": plan.gpu.assumed},
        "gpus": plan.run.gpus,
        "attention": plan.run.attention,
        "settings": engine.variables(plan.run),
        "bytes": plan.phases,
        "seconds": plan.seconds,
        "fits": not plan.problems,
        "problems": plan.problems,
        "advice": plan.advice or None,
    }
