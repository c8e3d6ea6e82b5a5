"""Time of a training step by phase, with our agent loop manager and with verl's workers, in one run on this machine.

    python benchmarks/step_time.py [--demo outputs/demo] [--steps 12]

Uses the task and base model of a demo (make demo). Both variants run GRPO with the demo's settings; the first three
steps are left out. `rest` is what a step takes beyond generation (with rewards) and the update.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.demo.experiment import OVERRIDES, SCRIPTS
from rl.demo.run import Demo
from rl.demo.scorer_process import scorer_server

VARIANTS = {
    "ours": [],
    "verl's agent loop workers": ["actor_rollout_ref.rollout.agent.agent_loop_manager_class=null"],
}
WARM_UP_STEPS = 3


def run(demo: Demo, address: str, steps: int, overrides: list[str]) -> dict[str, float]:
    """Mean seconds of a step's parts."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"OUTPUT_DIR": folder, "TOTAL_STEPS": str(steps), "SAVE_FREQ": "-1", "DPH_SCORER": address}
        settings |= {"GPUS_PER_NODE": "1", "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
        finished = subprocess.run(
            ["bash", str(SCRIPTS / "grpo.sh"), "run", *OVERRIDES, *overrides],
            env=os.environ | demo.settings | settings,
            capture_output=True,
            text=True,
        )
        if finished.returncode:
            raise UserError(f"The run failed: {(finished.stderr or finished.stdout).strip().splitlines()[-1]}")
        [log] = (Path(folder) / "run" / "metrics").glob("*.jsonl")
        entries = [json.loads(line)["data"] for line in log.read_text().splitlines()][WARM_UP_STEPS:]
    means = {
        name: statistics.mean(entry[f"timing_s/{key}"] for entry in entries)
        for name, key in {"step": "step", "generation": "gen", "update": "update_actor"}.items()
    }
    return means | {"rest": means["step"] - means["generation"] - means["update"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demo", type=Path, default=Path("outputs/demo"), help="folder of a finished demo")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    with user_errors_exit():
        demo = Demo(options.demo.resolve(), ["grpo"], options.steps, seed=1)
        if not (demo.model / "config.json").exists():
            raise UserError(f"{demo.model} holds no model: run `make demo` first, or name its folder with --demo.")
        with scorer_server(demo.out, demo.task / "databases") as address:
            found = {name: run(demo, address, options.steps, extra) for name, extra in VARIANTS.items()}
    ours = found["ours"]
    for name, means in found.items():
        parts = "  ".join(f"{part} {seconds:.2f} s" for part, seconds in means.items())
        sys.stdout.write(f"{name:<28}{parts}  ({means['step'] / ours['step']:.2f} x ours)\n")


if __name__ == "__main__":
    main()
