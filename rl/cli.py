"""The program `dph`: one front door to the project's programs (docs/dph.md).

A subcommand's modules are imported when it runs; help and completion load only its parser.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.common.config_help import program_help
from rl.common.errors import UserError
from rl.data.split_command import EXPERIMENTS

METHODS = ("grpo", "dapo", "reverse_kl", "forward_kl", "js_kl", "js_definition", "alpha")
SHELLS = ("bash", "zsh", "tcsh")
HELP = ("-h", "--help")
ABOUT = """\
Reinforcement learning with verifiable rewards that keeps the diversity of the initial policy.

{commands}

dph COMMAND --help shows the command's options and an example.
"""


@dataclass(frozen=True)
class Command:
    """A subcommand.

    Attributes:
        parser, main: functions, or "module:function" to import when needed. parser() returns the ArgumentParser for
            help, checks and completion; main(arguments) is the program and returns its exit code or None.
        passes_on: main passes arguments on to a program that checks them itself.
        needs_verl: main starts programs inside verl.
    """

    summary: str
    example: str
    parser: str | Callable[[], argparse.ArgumentParser]
    main: str | Callable[[list[str]], int | None]
    passes_on: bool = False
    needs_verl: bool = False


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    with user_errors_exit():
        if not words or words[0].startswith("-"):
            return _without_command(words)
        name, rest = resolve(words)
        if name in GROUPS:
            of_group = f"{name} "
            example = next(command.example for key, command in COMMANDS.items() if key.startswith(of_group))
            sys.stdout.write(f"usage: dph {name} DATASET [...]\n\n{_listed(of_group)}\n\nexample:\n  {example}\n")
            return 0
        command = COMMANDS[name]
        if not command.passes_on:
            parser_of(name).parse_args(rest)
        elif rest[:1] and rest[0] in HELP:
            parser_of(name).print_help()
            return 0
        if command.needs_verl:
            _require_verl()
        return _function(command.main)(rest) or 0


def resolve(words: list[str]) -> tuple[str, list[str]]:
    """Split a command line into its arguments and the subcommand, or the group whose help is asked for.

    Raises:
        UserError: there is no such subcommand; the sentence names the nearest.
    """
    name, *rest = words
    if name in GROUPS and rest and rest[0] not in HELP:
        name, *rest = f"{name} {rest[0]}", *rest[1:]
    if name in COMMANDS or name in GROUPS:
        return name, rest
    from difflib import get_close_matches

    nearest = get_close_matches(name, [*COMMANDS, *GROUPS], 1)
    hint = f"did you mean 'dph {nearest[0]}'?" if nearest else "see dph --help."
    raise UserError(f"'dph {name}' is no command; {hint}")


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a subcommand, such as "prepare bird"."""
    command = COMMANDS[name]
    parser = _function(command.parser)()
    parser.prog = f"dph {name}"
    parser.epilog = f"example:\n  {command.example}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def full_parser() -> argparse.ArgumentParser:
    """All subcommands in one parser, for shell completion."""
    root = argparse.ArgumentParser(prog="dph")
    groups = {"": root.add_subparsers()}
    for name, summary in GROUPS.items():
        groups[name] = groups[""].add_parser(name, help=summary).add_subparsers()
    for name, command in COMMANDS.items():
        group, _, last = name.rpartition(" ")
        groups[group].add_parser(last, help=command.summary, parents=[parser_of(name)], add_help=False)
    return root


def _without_command(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dph",
        usage="dph COMMAND [...]",
        description=ABOUT.format(commands=_listed("")),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="the same as dph version")
    parser.add_argument("--print-completion", choices=SHELLS, metavar="SHELL", help=f"script for {', '.join(SHELLS)}")
    options = parser.parse_args(words)
    if options.version:
        _print_versions([])
    elif options.print_completion:
        _print_completion(options.print_completion)
    else:
        parser.print_help()
    return 0


def _listed(prefix: str) -> str:
    """The commands below a group, "" for all at the top."""
    summaries = {name: command.summary for name, command in COMMANDS.items() if name.startswith(prefix)}
    if not prefix:
        summaries = {name.split()[0]: GROUPS.get(name.split()[0], summary) for name, summary in summaries.items()}
    return "\n".join(f"  {name.removeprefix(prefix):<11} {summary}" for name, summary in summaries.items())


def _print_completion(shell: str) -> None:
    try:
        import shtab
    except ImportError as error:
        raise UserError("Shell completion needs shtab: pip install shtab.") from error
    parser = full_parser()
    _complete_paths(parser, shtab.FILE)
    sys.stdout.write(shtab.complete(parser, shell) + "\n")


def _complete_paths(parser: argparse.ArgumentParser, files: dict[str, str]) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _complete_paths(below, files)
        elif action.type is Path:
            action.complete = files


def _function(named: str | Callable) -> Callable:
    if not isinstance(named, str):
        return named
    from importlib import import_module

    module, _, function = named.partition(":")
    return getattr(import_module(module), function)


def _require_verl() -> None:
    from importlib.util import find_spec

    verl = find_spec("verl")
    if verl is None or verl.origin is None:  # a checkout's own verl/ is a namespace
        raise UserError(
            f"{sys.executable} has no verl: activate the environment (make install, then . .venv/bin/activate)."
        )


def _script_parser(description: str, *, method: bool = False) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    if method:
        parser.add_argument("method", choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="NAME, numbers and KEY=VALUE overrides")
    parser.add_argument(
        "--experiment",
        choices=EXPERIMENTS,
        metavar="NAME",
        help=f"the paper's experiment: {', '.join(EXPERIMENTS)} (default: SETTINGS, else llama_sql)",
    )
    for option, printed in (("--dry-run", "command"), ("--dry-run=config", "resolved configuration")):
        parser.add_argument(
            option, dest="options", action="append_const", const=option, help=f"print the {printed} and run nothing"
        )
    return parser


def script_command(name: str, arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """The launch script that a subcommand stands for: its command line and the environment variables to set.

    Raises:
        UserError: there is no checkout, which has the scripts.
    """
    asks_help = any(word in HELP for word in arguments)
    options, rest = parser_of(name).parse_known_args([word for word in arguments if word not in HELP])
    script = options.method if name == "train" else _SCRIPTS[name]
    experiment = options.experiment or "llama_sql"
    path = Path("scripts") / ("qwen" if experiment.endswith("math") else "llama") / f"{script}.sh"
    roots = [root for root in (Path(__file__).resolve().parents[1], Path.cwd()) if (root / path).is_file()]
    if not roots:
        raise UserError(
            f"dph {name} runs {path} of a checkout, which is not here: run it in one, or pip install -e it."
        )
    variables = {"PYTHON": os.environ.get("PYTHON") or sys.executable}
    if options.experiment:
        variables["SETTINGS"] = experiment
    flags = [*(options.options or []), *(["--help"] if asks_help else [])]
    return ["bash", str(roots[0] / path), *options.arguments, *rest, *flags], variables


def _run_script(name: str, arguments: list[str]) -> None:
    command, variables = script_command(name, arguments)
    os.execvpe(command[0], command, os.environ | variables)


def _evaluate_parser() -> argparse.ArgumentParser:
    class ConfigParser(argparse.ArgumentParser):
        def format_help(self) -> str:
            return f"{program_help(self.prog, 'evaluate')}\n{self.epilog}\n"

    parser = ConfigParser()
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--cfg", choices=("job",))
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("--help-all", action="store_true")
    return parser


def _evaluate(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "verl.dph.evaluate", *arguments]
    os.execv(command[0], command)


def _version_parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description="Print the versions of this package and of what it runs on.")


def _print_versions(arguments: list[str]) -> None:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    for package in ("dph-rl", "verl", "torch", "vllm", "ray"):
        try:
            found = version(package)
        except PackageNotFoundError:
            found = "not installed"
        sys.stdout.write(f"{package} {found}\n")
    sys.stdout.write(f"python {platform.python_version()}\n")


_SCRIPTS = {"presample": "offline_sampling", "store": "get_correct_data_tensor"}
_ENVIRONMENT = "\n\nThe settings are environment variables, as for the script (docs/scripts.md)."
GROUPS = {"prepare": "convert a published benchmark to a parquet of prompts"}
COMMANDS = {
    "demo": Command(
        "run the whole pipeline on a tiny model, on two cores",
        "dph demo --methods grpo,dph_js",
        "rl.demo.run:parser",
        "rl.demo.run:main",
        needs_verl=True,
    ),
    "study": Command(
        "train every method on the demo's task with several seeds",
        "dph study --seeds 1,2,3",
        "rl.demo.study:parser",
        "rl.demo.study:main",
        needs_verl=True,
    ),
    "prepare bird": Command(
        "BIRD, text to SQL",
        "dph prepare bird --split train --input train.json --databases /cache",
        "rl.data.prepare.commands:bird_parser",
        "rl.data.prepare.commands:bird",
    ),
    "prepare spider": Command(
        "Spider, text to SQL",
        "dph prepare spider --split dev --input dev.json --databases database --tables tables.json",
        "rl.data.prepare.commands:spider_parser",
        "rl.data.prepare.commands:spider",
    ),
    "prepare dapo": Command(
        "DAPO-Math-17K, the math training prompts",
        "dph prepare dapo --input dapo-math-17k.parquet",
        "rl.data.prepare.commands:dapo_parser",
        "rl.data.prepare.commands:dapo",
    ),
    "prepare math-eval": Command(
        "the math test sets",
        "dph prepare math-eval --input Qwen2.5-Math/evaluation/data",
        "rl.data.prepare.commands:math_eval_parser",
        "rl.data.prepare.commands:math_eval",
    ),
    "presample": Command(
        "sample the training prompts from the initial policy",
        "MODEL_PATH=/models/llama dph presample sampling",
        partial(
            _script_parser,
            "Sample every training prompt from the initial policy and score the samples: offline_sampling.sh.\n"
            "ARGUMENT is NAME [seed]; dph presample NAME --help lists all settings." + _ENVIRONMENT,
        ),
        partial(_run_script, "presample"),
        passes_on=True,
    ),
    "split": Command(
        "split the prompts into D_exp and D_pef",
        "dph split --experiment qwen_math",
        "rl.data.split_command:parser",
        "rl.data.split_command:main",
    ),
    "store": Command(
        "write the D_pef store with reference log-probs",
        "MODEL_PATH=/models/llama dph store",
        partial(
            _script_parser,
            "Sample each near-perfect prompt once more and store the correct responses with reference log-probs:\n"
            "get_correct_data_tensor.sh. ARGUMENT is [NAME] [seed]; dph store NAME --help lists all settings."
            + _ENVIRONMENT,
        ),
        partial(_run_script, "store"),
        passes_on=True,
    ),
    "train": Command(
        "train with a method of the paper",
        "MODEL_PATH=/models/llama dph train js_kl my_run 0.2 trainer.save_freq=20",
        partial(
            _script_parser,
            "Train with the launch script of a method (scripts/llama for SQL, scripts/qwen for math).\n"
            "ARGUMENT is NAME [eta] [seed]; alpha: NAME [eta] [alpha] [seed]; grpo, dapo: NAME [seed].\n"
            "dph train METHOD --help lists all settings." + _ENVIRONMENT,
            method=True,
        ),
        partial(_run_script, "train"),
        passes_on=True,
    ),
    "evaluate": Command(
        "sample checkpoints and report Pass@k, keep rate and styles",
        'dph evaluate "evaluate.models={base:MODEL,dph_js:RUN}" evaluate.benchmarks=[bird] evaluate.output=DIR',
        _evaluate_parser,
        _evaluate,
        passes_on=True,
        needs_verl=True,
    ),
    "report": Command(
        "write report.json and report.html from sample files",
        "dph report --spec outputs/demo/spec.json --out outputs/demo",
        "rl.evaluation.report.command:parser",
        "rl.evaluation.report.command:main",
    ),
    "inspect": Command(
        "show what data files hold and what is wrong with them",
        "dph inspect data/sql/bird_train.parquet",
        "rl.data.inspect.command:parser",
        "rl.data.inspect.command:main",
    ),
    "audit": Command(
        "find gold queries that fail, time out or return nothing",
        "dph audit data/sql/bird_train.parquet --database-path /cache",
        "rl.scorer.audit.options:parser",
        "rl.scorer.audit.__main__:main",
    ),
    "scorer": Command(
        "serve rewards over HTTP",
        "dph scorer -c rl/scorer/math.yaml",
        "rl.scorer.options:parser",
        "rl.scorer.server:main",
    ),
    "version": Command("print versions", "dph version", _version_parser, _print_versions),
}

if __name__ == "__main__":
    sys.exit(main())
