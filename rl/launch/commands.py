"""The subcommands of `dph` that start the launcher: presample, store and train."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from textwrap import fill

from rl.common.errors import UserError
from rl.configuration.methods import KINDS, PREPARATIONS, add_experiment, methods
from rl.configuration.names import CHECKOUT, hint

TRAIN_EXAMPLE = "js_kl my_run 0.2 trainer.save_freq=20"
LINE = 100  # characters
# It finds out which node this is, then starts `python -m rl.launch`.
_LAUNCHER = Path("scripts/lib/run.sh")
# What a subcommand does, and its positional arguments.
_ABOUT = {
    "presample": ("Sample every training prompt from the initial policy.", "[NAME] [seed]"),
    "store": (
        "Sample each near-perfect prompt once more and store the correct responses with reference\nlog-probs.",
        "[NAME] [seed]",
    ),
    "train": (
        "Train with a method, as its launch script does (SQL: scripts/llama, math: scripts/qwen).",
        "NAME [eta] [seed] (alpha: NAME [eta] [alpha] [seed]; most without D_pef: NAME [seed])",
    ),
}


def train_parser() -> argparse.ArgumentParser:
    parser = _parser("train")
    parser.add_argument("--list", action="store_true", help="list the methods, as dph train alone does")
    return parser


def train(arguments: list[str]) -> None:
    """Train with a method, or list the methods."""
    if arguments in ([], ["--list"]):
        for kind, group in KINDS.items():
            sys.stdout.write(f"{group}\n")
            for name, method in sorted(methods(kind).items(), key=lambda item: item[0] != "recipe"):
                sys.stdout.write(f"{fill(f'  {name:<15} {method.summary}', LINE, subsequent_indent=' ' * 18)}\n")
            sys.stdout.write("\n")
        sys.stdout.write(f"example:\n  dph train {TRAIN_EXAMPLE}\n")
        return
    _launch("train", arguments)


def _parser(name: str) -> argparse.ArgumentParser:
    """A subcommand's parser, for its help: the launcher reads most arguments itself."""
    description, arguments = _ABOUT[name]
    parser = argparse.ArgumentParser(
        description=f"{description}\n\nARGUMENT is {arguments},\n"
        "experiment=NAME (docs/reference/cli.md), or KEY=VALUE, a setting (docs/reference/settings.md)."
    )
    _add_own_options(parser, name)
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="as above")
    parser.add_argument("--dry-run", action="store_true", help="print the command and run nothing")
    parser.add_argument(
        "--dry-run=config", action="store_true", help="print the resolved configuration and run nothing"
    )
    return parser


def _add_own_options(parser: argparse.ArgumentParser, name: str) -> None:
    if name == "train":
        names = [*methods(*KINDS)]
        parser.add_argument("method", type=_method, choices=names, metavar="METHOD", help="see dph train --list")
    else:
        add_experiment(parser)


def _method(name: str) -> str:
    known = [*methods(*KINDS)]
    if name not in known:
        raise UserError(f"'{name}' is not a method; {hint(Path(name).stem, known, 'dph train --list')}")
    return name


def launcher(name: str, arguments: list[str]) -> list[str]:
    """The command line of the launcher that a subcommand starts.

    Raises:
        UserError: there is no checkout, which has the launcher's script.
    """
    parser = argparse.ArgumentParser(prog=f"dph {name}", add_help=False, allow_abbrev=False)
    _add_own_options(parser, name)
    options, passed = parser.parse_known_args(arguments)
    method = options.method if name == "train" else PREPARATIONS[name]
    experiment = [f"experiment={options.experiment}"] if getattr(options, "experiment", None) else []
    script = next((root / _LAUNCHER for root in (CHECKOUT, Path.cwd()) if (root / _LAUNCHER).is_file()), None)
    if script is None:
        raise UserError(
            f"dph {name} runs {_LAUNCHER} of a checkout, which is not here: run it in one, or pip install -e it."
        )
    return ["bash", str(script), method, *passed, *experiment]


def _launch(name: str, arguments: list[str]) -> None:
    command = launcher(name, arguments)
    os.execvpe(command[0], command, os.environ | {"PYTHON": os.environ.get("PYTHON") or sys.executable})


presample, store = partial(_launch, "presample"), partial(_launch, "store")
presample_parser, store_parser = partial(_parser, "presample"), partial(_parser, "store")
