"""Three updates of one tiny model on the CPU and on a GPU, in fp32 and bf16, and how much their metrics differ.

    VERL_PLATFORM=cpu python check_update.py MODEL cpu.json fp32
    python check_update.py MODEL fp32.json fp32 --expected cpu.json

The updates come from benchmarks/actor_update.py: verl's real training worker, all variants, rows of random ids.
"""

import argparse
import json
import math
import sys
from pathlib import Path

UPDATES = 3
# The relative tolerance of any metric in fp32, because sums are taken in another order.
TOLERANCE = 2e-3
ROWS = ["--rows=16", "--prompt=24", "--response=40", "--micro-batch-tokens=512"]
SMALL = ["--rows=8", "--prompt=8", "--response=8", "--micro-batch-tokens=64"]
# Without flash attention, packed rows would need a mask of all pairs, which this check does not compare.
PADDED = "actor_rollout_ref.model.use_remove_padding=False"
PRECISION = "++actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype="


def update(model: Path, report: Path, dtype: str, small: bool) -> None:
    """Write {variant: [metrics of each update]}; make the model if it is missing."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import actor_update
    import torch
    from standalone_worker import be_the_only_rank
    from verl.utils import tensordict_utils as tu

    from verl.dph.objective.rehearsal import over_accepted

    be_the_only_rank()
    if not (model / "config.json").exists():
        actor_update.make_model(str(model), "tiny")
    options = actor_update.parse([*ROWS, *(SMALL if small else []), PADDED, f"{PRECISION}{dtype}"])
    found = {}
    for variant, step in actor_update.updates_of(options.variants, str(model), options).items():
        metrics = [over_accepted(tu.get(step(), "metrics")) for _ in range(UPDATES)]
        found[variant] = [
            {
                name: float(torch.as_tensor(value, dtype=torch.float64).mean())
                for name, value in of.items()
                if kept(name)
            }
            for of in metrics
        ]
        sys.stdout.write(f"{variant}: {json.dumps(found[variant][0])[:500]}\n")
    report.write_text(json.dumps(found, indent=1) + "\n")


def kept(metric: str) -> bool:
    """Whether a metric is a result of the update, and not its cost."""
    return not metric.startswith("perf/") and metric not in ("mfu", "lr")


def compare(expected: Path, report: Path, tolerance: float) -> None:
    """Print the report's largest relative difference from `expected`, by variant.

    Raises:
        SystemExit: a difference is not below the tolerance, or the report holds other metrics.
    """
    cpu, found = (json.loads(path.read_text()) for path in (expected, report))
    if _names(found) != _names(cpu):
        raise SystemExit(f"{report} holds other variants, updates or metrics.")
    for variant, steps in cpu.items():
        apart = [
            (_apart(value, found[variant][i][name]), name)
            for i, step in enumerate(steps)
            for name, value in step.items()
        ]
        largest, name = max(apart)
        sys.stdout.write(f"{report.stem} {variant}: largest relative difference {largest:.2g} ({name})\n")
        if not largest < tolerance:
            raise SystemExit(f"DIFFERENT: {largest:.2g} is not below {tolerance}")


def _apart(expected: float, found: float) -> float:
    """The relative difference; infinite if either value is NaN."""
    apart = abs(expected - found) / (1e-6 + abs(expected))
    return math.inf if math.isnan(apart) else apart


def _names(report: dict) -> dict[str, list[list[str]]]:
    return {variant: [sorted(step) for step in steps] for variant, steps in report.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", type=Path, help="folder of the tiny model, which is made if missing")
    parser.add_argument("report", type=Path)
    parser.add_argument("dtype", choices=("fp32", "bf16"))
    parser.add_argument("--expected", type=Path, help="the CPU's report, which fp32 must agree with")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    options = parser.parse_args()
    update(options.model, options.report, options.dtype, options.small)
    if options.expected:
        compare(options.expected, options.report, TOLERANCE if options.dtype == "fp32" else math.inf)


if __name__ == "__main__":
    main()
