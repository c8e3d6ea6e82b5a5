"""A launch script's part of planning: `python -m rl.planning.for_script`, which scripts/lib/launch.sh runs.

Prints the script's command, quoted for the shell, with the engine settings chosen that the script left open, and on
stderr one line: the plan, or why there is none. A run that does not fit, and a batch that is larger than its prompts,
end it with exit code 2.
"""

import argparse
import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence

from rl.common.batch_size import check_batch
from rl.common.cli import USER_ERROR_EXIT_CODE
from rl.common.errors import UserError
from rl.planning.choice import advice, planned
from rl.planning.gpus import assumed_gpu
from rl.planning.model_shape import model_shape
from rl.planning.plan import Plan
from rl.planning.run_settings import KEYS, run_settings
from rl.planning.script_settings import override_values
from rl.planning.text import one_line
from rl.planning.variables import misspelt

TRAINING = "verl.dph.main"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", default="", help="type; empty: this machine's, else the paper's")
    parser.add_argument("--open", default="", help="settings that the plan may choose, separated by spaces")
    parser.add_argument("--only-warn", action="store_true", help="that it does not fit is no error")
    parser.add_argument("command", nargs="+", metavar="WORD", help="the interpreter, -m, the module, overrides")
    options = parser.parse_args(arguments)
    for sentence in misspelt(os.environ):
        sys.stderr.write(f"Warning: {sentence}\n")
    words, code = options.command, 0
    values = override_values(words[3:])
    try:
        _check_batch(words[2], values)
    except UserError as error:
        sys.stderr.write(f"Error: {error}\n")
        return USER_ERROR_EXIT_CODE
    if values.get("device") == "cpu":  # a plan is one for GPUs
        sys.stdout.write(shlex.join(words) + "\n")
        return code
    try:
        words, plan, chosen = plan_command(words, options.gpu, options.open.split())
        sys.stderr.write(f"{one_line(plan, chosen)}\n")
        if problems := plan.problems():
            run = plan.run
            hint = advice(run, plan.shape, plan.gpu)
            if options.only_warn:
                sys.stderr.write(f"Warning: it would not fit (estimated): {problems[0]}: {hint}.\n")
            else:
                sentence = f"it would not fit (estimated): {problems[0]}: {hint}, or PLAN=ignore to start all the same."
                sys.stderr.write(f"Error: {sentence}\n")
                code = USER_ERROR_EXIT_CODE
    except UserError as error:
        sys.stderr.write(f"Plan: not made: {error}\n")
    sys.stdout.write(shlex.join(words) + "\n")
    return code


def _check_batch(module: str, values: dict[str, str]) -> None:
    """Compare a training run's batch with its prompts, where these are files that can be read; training reads them all.

    Raises:
        UserError: the batch is larger.
    """
    if module != TRAINING or values.get("actor_rollout_ref.actor.generate_sft") == "True":
        return
    import pyarrow.parquet as pq
    import yaml

    try:
        files = yaml.safe_load(values["data.train_files"])
        prompts = sum(pq.read_metadata(file).num_rows for file in ([files] if isinstance(files, str) else files))
        batch = int(values["data.train_batch_size"])
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return
    check_batch(batch, prompts)


def plan_command(words: list[str], gpu: str, open_: Sequence[str]) -> tuple[list[str], Plan, dict[str, str]]:
    """The command with the engine settings that fit in place of those left open, its plan, and what these change.

    A setting is not open if its key stands in the command twice, the user's behind the script's, or not at all.

    Raises:
        UserError: the plan cannot be made; the sentence says why.
    """
    module, overrides = words[2], words[3:]
    run = run_settings(module, override_values(overrides))
    counts = Counter(word.lstrip("+").partition("=")[0] for word in overrides)
    open_ = [name for name in open_ if {counts[key] for key in KEYS[name]} <= {0, 1} and counts[KEYS[name][0]]]
    plan = planned(run, model_shape(run.model), assumed_gpu(gpu), open_)
    before, after = run.engine.settings(), plan.run.engine.settings()
    chosen = {name: value for name, value in after.items() if value != before[name]}
    values = plan.run.engine.overrides()
    changed = {key: values[key] for name in chosen for key in KEYS[name]}
    return [*words[:3], *(_replaced(word, changed) for word in overrides)], plan, chosen


def _replaced(word: str, values: dict[str, str]) -> str:
    key, _, _ = word.partition("=")
    return f"{key}={values[key]}" if key in values else word


if __name__ == "__main__":
    sys.exit(main())
