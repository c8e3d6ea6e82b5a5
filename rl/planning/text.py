"""A plan in words, as a table, and as JSON."""

from collections.abc import Mapping
from typing import Any

from rl.common.duration import duration
from rl.planning.phases import GB, PARTS, Phase, in_gb, update_peaks
from rl.planning.plan import Plan
from rl.planning.step_time import micro_batch_flop, row_tokens

_LABEL, _COLUMN = 24, 17


def one_line(plan: Plan, chosen: Mapping[str, str]) -> str:
    """What a launch script prints.

    Args:
        chosen: the settings that differ from the script's defaults.
    """
    capacity = f"{plan.gpu.memory:g} GB"
    parts = [f"{phase.peak / GB:.0f} of {capacity} in the {phase.name}" for phase in plan.phases[:2]]
    if plan.step_seconds:
        step = duration(plan.step_seconds)
        parts.append(f"{step if step.startswith('under') else f'about {step}'} a step")
    text = f"Plan: {', '.join(parts)} on {plan.run.gpus} x {plan.gpu.name} (estimated)."
    text += f" {_assumption(plan)}" if plan.gpu.assumed else ""
    if chosen:
        text += f" {_chosen(chosen)}"
    return text


def _chosen(chosen: Mapping[str, str]) -> str:
    return f"The plan chose {' '.join(f'{name}={value}' for name, value in chosen.items())}."


def _assumption(plan: Plan) -> str:
    return f"No GPU was found here: {plan.gpu.name} is assumed, GPU_TYPE names another."


def report(plan: Plan, hint: str, chosen: Mapping[str, str]) -> str:
    """The whole plan.

    Args:
        hint: what to set if it does not fit.
        chosen: the settings that differ from the script's defaults.
    """
    run, shape, gpu = plan.run, plan.shape, plan.gpu
    nodes = f"{run.nodes} nodes x {run.gpus_per_node}" if run.nodes > 1 else str(run.gpus_per_node)
    lines = [
        f"{shape.name}, {shape.parameters / 1e9:.2f}B parameters, on {nodes} x {gpu.name} ({gpu.memory:g} GB) with "
        f"{run.attention}.",
        *([_assumption(plan)] if plan.gpu.assumed else []),
        "All figures are estimated (docs/howto/plan.md); none was measured on a GPU.",
        "",
        "  ".join(f"{name}={value}" for name, value in run.engine_settings().items()),
        *([_chosen(chosen)] if chosen else []),
        "",
        *_memory_table(plan),
        "",
        _share(plan),
    ]
    if run.kind == "train":
        lines.append(_by_attention(plan))
    if plan.host:
        held = ", ".join(f"{name} {in_gb(number)}" for name, number in plan.host.items())
        lines.append(f"Main memory of a node, GB: {held}.")
    lines += ["", *_times(plan)] if run.kind == "train" else []
    lines += ["", *plan.notes] if plan.notes else []
    problems = plan.problems()
    verdict = f"Does not fit: {'; '.join(problems)}. To make it fit, {hint}." if problems else "It fits."
    return "\n".join([*lines, "", verdict]) + "\n"


def _memory_table(plan: Plan) -> list[str]:
    names = [name for name in PARTS if any(name in phase.parts for phase in plan.phases)]
    head = _row("GB per GPU", [phase.name for phase in plan.phases])
    rows = [_row(f"  {name}", [_cell(phase.parts.get(name)) for phase in plan.phases]) for name in names]
    peaks = _row("peak", [_cell(phase.peak) for phase in plan.phases])
    beside = _row("vLLM asleep, contexts", [_cell(phase.beside or None) for phase in plan.phases])
    totals = _row(f"of {plan.gpu.memory:g}", [_total(phase, plan.gpu.memory) for phase in plan.phases])
    return [head, *rows, peaks, beside, totals]


def _row(label: str, cells: list[str]) -> str:
    return (f"{label:<{_LABEL}}" + "".join(f"{cell:>{_COLUMN}}" for cell in cells)).rstrip()


def _cell(number: float | None) -> str:
    return "" if number is None else f"{number / GB:.1f}"


def _total(phase: Phase, capacity: float) -> str:
    return f"{'TOO MUCH ' if phase.total > capacity * GB else ''}{phase.total / GB:.1f}"


def _share(plan: Plan) -> str:
    needs = ", ".join(f"{name} {in_gb(number)}" for name, number in plan.share.items())
    return (
        f"vLLM's share of {in_gb(plan.share_given)} GB must hold: {needs} (one row of {plan.run.longest_row} tokens)."
    )


def _by_attention(plan: Plan) -> str:
    peaks = [
        f"{low / GB:.0f}{f' to {high / GB:.0f}' if round(high / GB) != round(low / GB) else ''} with {name}"
        for name, (low, high) in update_peaks(plan.run, plan.shape).items()
    ]
    return f"Peak of the update, GB: {', '.join(peaks)}."


def _times(plan: Plan) -> list[str]:
    if not plan.seconds or plan.gpu.tflops is None:
        return [f"No times: the speed of {plan.gpu.name} is not known."]
    run = plan.run
    row, response = row_tokens(run.max_prompt, run.max_response)
    per_batch = micro_batch_flop(plan.shape.parameters, run.engine.max_tokens) / (plan.gpu.tflops * 1e12)
    rows = run.prompts * run.samples + run.pef_rows
    lines = [_row("seconds of a step", [])]
    lines += [
        _row(f"  {name}{' (rough)' if name == 'rollout' else ''}", [_seconds(s)]) for name, s in plan.seconds.items()
    ]
    lines.append(_row("step", [duration(sum(plan.seconds.values()))]))
    return [
        *lines,
        f"Assumed: {rows} rows of {row} tokens, {response} of them the response; {plan.gpu.tflops:g} TFLOP/s.",
        f"A micro-batch of {run.engine.max_tokens} tokens takes {duration(per_batch)}.",
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.1f}" if seconds >= 0.1 else "< 0.1"


def as_json(plan: Plan, hint: str) -> dict[str, Any]:
    """Bytes, seconds, and the settings they follow from."""
    run, problems = plan.run, plan.problems()
    row, response = row_tokens(run.max_prompt, run.max_response)
    return {
        "estimated": True,
        "model": {"name": plan.shape.name, "family": plan.shape.family, "parameters": plan.shape.parameters},
        "gpu": {
            "name": plan.gpu.name,
            "memory_gb": plan.gpu.memory,
            "assumed": plan.gpu.assumed,
            "assumed_tflops": plan.gpu.tflops,
        },
        "gpus": run.gpus,
        "attention": run.attention,
        "settings": run.engine_settings(),
        "phases": [
            {"name": phase.name, "parts": phase.parts, "peak": phase.peak, "beside": phase.beside, "total": phase.total}
            for phase in plan.phases
        ],
        "update_peak_by_attention": {name: list(peak) for name, peak in update_peaks(run, plan.shape).items()},
        "vllm_needs": plan.share,
        "host_bytes_per_node": plan.host,
        "assumed_row_tokens": {"row": row, "response": response},
        "seconds": plan.seconds,
        "step_seconds": plan.step_seconds,
        "notes": list(plan.notes),
        "fits": not problems,
        "problems": problems,
        "advice": hint if problems else None,
    }
