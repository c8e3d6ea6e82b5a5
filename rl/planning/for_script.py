"""A launch script's part of planning: `python -m rl.planning.for_script`, which scripts/lib/launch.sh runs.

Prints the script's command, quoted for the shell, with the engine settings chosen that the script left open, and on
stderr one line: the plan, why there is none, or what does not fit (exit code 2).
"""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence

from rl.common.cli import USER_ERROR_EXIT_CODE
from rl.common.errors import UserError
from rl.planning.assumptions import assumed_attention, assumed_gpu
from rl.planning.choice import advice, planned
from rl.planning.model_shape import model_shape
from rl.planning.plan import Plan
from rl.planning.run_settings import KEYS, run_settings
from rl.planning.script_settings import override_values
from rl.planning.text import one_line


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", default="", help="type; empty: this machine's, else the paper's")
    parser.add_argument("--open", default="", help="settings that the plan may choose, separated by spaces")
    parser.add_argument("--only-warn", action="store_true", help="that it does not fit is no error")
    parser.add_argument("command", nargs="+", metavar="WORD", help="the interpreter, -m, the module, overrides")
    options = parser.parse_args(arguments)
    words, code = options.command, 0
    try:
        words, plan = plan_command(words, options.gpu, options.open.split())
        sys.stderr.write(f"{one_line(plan, _chosen(options.command, plan))}\n")
        if problems := plan.problems():
            run = plan.run
            hint = advice(run, plan.shape, plan.gpu, plan.attention)
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


def plan_command(words: list[str], gpu: str, open_: Sequence[str]) -> tuple[list[str], Plan]:
    """The command with the engine settings that fit in place of those left open, and its plan.

    A setting is not open if its key stands in the command twice, the user's behind the script's, or not at all.

    Raises:
        UserError: the plan cannot be made; the sentence says why.
    """
    module, overrides = words[2], words[3:]
    run = run_settings(module, override_values(overrides))
    counts = Counter(word.lstrip("+").partition("=")[0] for word in overrides)
    open_ = [name for name in open_ if all(counts[key] == 1 for key in KEYS[name])]
    plan = planned(run, model_shape(run.model), assumed_gpu(gpu), assumed_attention(run.attention), open_)
    values = {key: value for key, value in plan.run.engine.overrides().items() if counts[key] == 1}
    return [*words[:3], *(_replaced(word, values) for word in overrides)], plan


def _replaced(word: str, values: dict[str, str]) -> str:
    key, _, _ = word.partition("=")
    return f"{key}={values[key]}" if key in values else word


def _chosen(words: list[str], plan: Plan) -> dict[str, str]:
    before = run_settings(words[2], override_values(words[3:])).engine.settings()
    return {name: value for name, value in plan.run.engine_settings().items() if value != before[name]}


if __name__ == "__main__":
    sys.exit(main())
