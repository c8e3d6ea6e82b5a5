"""The subcommands of `dph` that run a launch script: presample, store and train."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from rl.common.errors import UserError
from rl.configuration.methods import DEFAULT_EXPERIMENT, KINDS, add_experiment, methods
from rl.configuration.names import hint

TRAIN_EXAMPLE = "js_kl my_run 0.2 trainer.save_freq=20"
# The launch script, what it does, its positional arguments.
_SCRIPTS = {
    "presample": (
        "offline_sampling",
        "Sample every training prompt from the initial policy: offline_sampling.sh.",
        "NAME [seed]",
    ),
    "store": (
        "get_correct_data_tensor",
        "Sample each near-perfect prompt once more and store the correct responses with reference log-probs:\n"
        "get_correct_data_tensor.sh.",
        "[NAME] [seed]",
    ),
    "train": (
        "",  # the method's
        "Train with a method's launch script (SQL: scripts/llama, math: scripts/qwen).",
        "NAME [eta] [seed] (alpha: NAME [eta] [alpha] [seed]; most without D_pef: NAME [seed])",
    ),
}


def train_parser() -> argparse.ArgumentParser:
    parser = _script_parser("train")
    parser.add_argument("--list", action="store_true", help="list the methods, as dph train alone does")
    return parser


def train(arguments: list[str]) -> None:
    """Run a method's launch script, or list the methods."""
    if arguments in ([], ["--list"]):
        for kind, group in KINDS.items():
            listed = "".join(f"  {name:<14} {method.summary}\n" for name, method in methods(kind).items())
            sys.stdout.write(f"{group}\n{listed}\n")
        sys.stdout.write(f"example:\n  dph train {TRAIN_EXAMPLE}\n")
        return
    _run_script("train", arguments)


def _script_parser(name: str) -> argparse.ArgumentParser:
    """The parser of a subcommand that runs a launch script, for its help: the script reads most arguments itself."""
    _, description, arguments = _SCRIPTS[name]
    parser = argparse.ArgumentParser(
        description=f"{description}\n\nARGUMENT is {arguments}, or KEY=VALUE.\n"
        "Settings are environment variables (docs/reference/scripts.md); --help after NAME lists them."
    )
    _add_own_options(parser, name)
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="the script's, as above")
    parser.add_argument("--dry-run", action="store_true", help="print the command and run nothing")
    parser.add_argument(
        "--dry-run=config", action="store_true", help="print the resolved configuration and run nothing"
    )
    return parser


def _add_own_options(parser: argparse.ArgumentParser, name: str) -> None:
    if name == "train":
        names = [*methods(*KINDS)]
        parser.add_argument("method", type=_method, choices=names, metavar="METHOD", help="see dph train --list")
    add_experiment(parser)


def _method(name: str) -> str:
    known = [*methods(*KINDS)]
    if name not in known:
        raise UserError(f"'{name}' is not a method; {hint(name, known, 'dph train --list')}")
    return name


def script_command(name: str, arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command line of a subcommand's launch script, and the environment variables to set for it.

    Raises:
        UserError: there is no checkout, which has the scripts.
    """
    parser = argparse.ArgumentParser(prog=f"dph {name}", add_help=False, allow_abbrev=False)
    _add_own_options(parser, name)
    options, passed = parser.parse_known_args(arguments)
    script = options.method if name == "train" else _SCRIPTS[name][0]
    experiment = options.experiment or DEFAULT_EXPERIMENT
    path = Path("scripts") / ("qwen" if experiment.endswith("math") else "llama") / f"{script}.sh"
    roots = [root for root in (Path(__file__).resolve().parents[2], Path.cwd()) if (root / path).is_file()]
    if not roots:
        raise UserError(
            f"dph {name} runs {path} of a checkout, which is not here: run it in one, or pip install -e it."
        )
    variables = {"PYTHON": os.environ.get("PYTHON") or sys.executable}
    if options.experiment:
        variables["SETTINGS"] = experiment
    return ["bash", str(roots[0] / path), *passed], variables


def _run_script(name: str, arguments: list[str]) -> None:
    command, variables = script_command(name, arguments)
    os.execvpe(command[0], command, os.environ | variables)


presample, store = (partial(_run_script, name) for name in ("presample", "store"))
presample_parser, store_parser = (partial(_script_parser, name) for name in ("presample", "store"))
