"""`dph plan`: memory and time of a launch script's run, before it starts (docs/howto/plan.md)."""

import argparse
import json
import os
import sys

from rl.common.errors import UserError
from rl.configuration.run import run_of
from rl.planning.at_start import plan_of
from rl.planning.choice import advice
from rl.planning.gpus import GPUS
from rl.planning.text import as_json, report

ATTENTION = "actor_rollout_ref.model.override_config.attn_implementation"
DOES_NOT_FIT = 1


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Estimate what a launch script's run holds on each GPU and how long a step takes\n"
        "(docs/howto/plan.md). Nothing is started. Settings are environment variables, as for the script\n"
        "itself: MODEL_PATH, GPUS_PER_NODE, ... Exit code: 0 if it fits, 1 if not, 2 if no plan can be made.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--gpu",
        default=os.environ.get("GPU_TYPE", ""),
        metavar="TYPE",
        help=f"{', '.join(GPUS)}, or TYPE-GB such as a100-40 (default: GPU_TYPE, this machine's, else a800)",
    )
    parser.add_argument(
        "--attention",
        choices=("flash", "sdpa"),
        help="of the trainer (default: the run's; else what can be imported here, or flash on a machine without a GPU)",
    )
    parser.add_argument("--json", action="store_true", help="print bytes and seconds as JSON")
    parser.add_argument("script", metavar="SCRIPT", help="of scripts/llama or scripts/qwen")
    parser.add_argument("arguments", nargs="*", metavar="ARG", help="of the script: NAME, numbers, KEY=VALUE")
    return parser


def main(arguments: list[str]) -> int:
    # What is no option of ours is the script's, such as ~KEY or --cfg.
    options, others = parser().parse_known_args(arguments)
    chosen = {"flash": f"+{ATTENTION}=flash_attention_2", "sdpa": f"+{ATTENTION}=sdpa", None: None}[options.attention]
    overrides = [chosen] if chosen else []
    if not os.environ.get("DEVICE"):
        overrides.append("device=cuda")  # a plan needs no GPU here
    run = run_of(options.script, [*options.arguments, *others, *overrides])
    if run.device.startswith("cpu"):
        raise UserError("DEVICE=cpu: a plan is one for GPUs; leave DEVICE out, or set DEVICE=cuda.")
    plan, changed = plan_of(run, options.gpu)
    hint = advice(plan.run, plan.shape, plan.gpu) if plan.problems() else ""
    if options.json:
        sys.stdout.write(json.dumps(as_json(plan, hint), indent=2) + "\n")
    else:
        sys.stdout.write(report(plan, hint, changed))
    return DOES_NOT_FIT if plan.problems() else 0
