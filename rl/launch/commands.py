"""The subcommands of `dph` that start the launcher, presample, store and train, or a program of verl.dph."""

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from textwrap import fill

from rl.common.cli import output_folder
from rl.common.errors import UserError
from rl.configuration.methods import KINDS, PREPARATIONS, methods
from rl.configuration.names import CHECKOUT

TRAIN_EXAMPLE = "js_kl my_run 0.2 trainer.save_freq=20"
LINE = 100  # characters
# It finds out which node this is, then starts `python -m rl.launch`.
_LAUNCHER = Path("scripts/lib/run.sh")


def _parser(description: str, arguments: str) -> argparse.ArgumentParser:
    """A subcommand's parser, for its help: the launcher reads the arguments itself."""
    parser = argparse.ArgumentParser(
        description=f"{description}\n\nARGUMENT is {arguments},\n"
        "experiment=NAME (docs/reference/cli.md), or KEY=VALUE, a setting (docs/reference/settings.md)."
    )
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="as above")
    shown = "print the command, or with =config the resolved configuration, and run nothing"
    parser.add_argument("--dry-run", nargs="?", choices=("config",), help=shown)
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
    _launch([], arguments)


def _launch(method: list[str], arguments: list[str]) -> None:
    """Become the launcher of a run."""
    script = next((root / _LAUNCHER for root in (CHECKOUT, Path.cwd()) if (root / _LAUNCHER).is_file()), None)
    if script is None:
        raise UserError(f"{_LAUNCHER} of a checkout is not here: run dph in a checkout, or pip install -e it.")
    command = ["bash", str(script), *method, *arguments]
    os.execvpe(command[0], command, os.environ | {"PYTHON": os.environ.get("PYTHON") or sys.executable})


presample, store = (partial(_launch, [PREPARATIONS[name]]) for name in ("presample", "store"))
presample_parser = partial(_parser, "Sample every training prompt from the initial policy.", arguments="[NAME] [seed]")
store_parser = partial(
    _parser,
    "Sample each near-perfect prompt once more and store the correct responses with reference\nlog-probs.",
    arguments="[NAME] [seed]",
)
train_parser = partial(
    _parser,
    "Train with a method, as its launch script does (SQL: scripts/llama, math: scripts/qwen). Without\narguments: list "
    "the methods.",
    arguments="METHOD NAME [eta] [seed] (alpha: NAME [eta] [alpha] [seed]; most without D_pef: NAME [seed])",
)


def _run_module(name: str, arguments: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", name, *arguments])


evaluate, export = (partial(_run_module, f"verl.dph.{name}") for name in ("evaluate", "export"))


def evaluate_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Evaluate models; docs/reference/settings.md has the settings.")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--cfg", choices=("job",), help="job prints all settings, verl's too, with their values")
    parser.add_argument("--resolve", action="store_true", help="with --cfg: replace references by values")
    return parser


def export_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m verl.dph.export",
        description="Write a trained policy as a Hugging Face folder: weights, configuration, tokenizer and the run's\n"
        "manifest (docs/howto/runs.md).",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="RUN", help="a run's folder, or one of its checkpoints (global_step_N)")
    parser.add_argument("out", type=output_folder, metavar="OUT", help="a folder that does not exist yet")
    parser.add_argument("--best", action="store_true", help="the checkpoint with the best validation, not the newest")
    parser.add_argument("--trust-remote-code", action="store_true", help="run Python code of the model's folder")
    return parser
