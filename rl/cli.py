"""The program `dph`, whose subcommands are the project's programs (docs/reference/cli.md).

A subcommand's modules are imported when it runs; help loads only its parser.
"""

import argparse
import sys
from dataclasses import dataclass
from importlib import import_module, metadata

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError
from rl.configuration.names import hint, verl_folder
from rl.launch.commands import TRAIN_EXAMPLE

HELP = ("-h", "--help")
ABOUT = """\
usage: dph COMMAND [...]

Reinforcement learning with verifiable rewards that keeps the diversity of the initial policy.

{commands}

dph COMMAND --help shows the command's options and an example.
"""


@dataclass(frozen=True)
class Command:
    """A subcommand.

    Attributes:
        example: the arguments of the help's example.
        program: "module", which has parser() and main(arguments), or "module:name", which has name_parser() and
            name(arguments). The parser serves help and checks; the program returns its exit code or None.
    """

    summary: str
    example: str
    program: str

    def parser(self) -> argparse.ArgumentParser:
        module, _, name = self.program.partition(":")
        return getattr(import_module(module), f"{name}_parser" if name else "parser")()

    def main(self, arguments: list[str]) -> int | None:
        module, _, name = self.program.partition(":")
        return getattr(import_module(module), name or "main")(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    with user_errors_exit():
        if not words or words[0] in HELP:
            sys.stdout.write(ABOUT.format(commands=_listed("")))
            return 0
        if words == ["--version"]:
            sys.stdout.write(f"dph-rl {metadata.version('dph-rl')}\n")
            return 0
        name, rest = resolve(words)
        if name in GROUPS:
            first = next(key for key in COMMANDS if key.startswith(f"{name} "))
            listed, example = _listed(f"{name} "), _example(first)
            sys.stdout.write(f"usage: dph {name} DATASET [...]\n\n{listed}\n\n{example}\n")
            return 0
        if name not in PASS_ON:
            parser_of(name).parse_args(rest)
        elif rest and rest[0] in HELP:
            parser_of(name).print_help()
            return 0
        if name in NEED_VERL:
            verl_folder()
        return COMMANDS[name].main(rest) or 0


def resolve(words: list[str]) -> tuple[str, list[str]]:
    """Split a command line into its arguments and the subcommand, or the group whose help is asked for."""
    name, *rest = words
    if name in GROUPS and rest and rest[0] not in HELP:
        name, *rest = f"{name} {rest[0]}", *rest[1:]
    if name in COMMANDS or name in GROUPS:
        return name, rest
    raise UserError(f"'dph {name}' is not a command; {hint(name, [*COMMANDS, *GROUPS], 'dph --help', before='dph ')}")


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a subcommand, such as "prepare bird"."""
    parser = COMMANDS[name].parser()
    parser.prog = f"dph {name}"
    parser.epilog = _example(name)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def _example(name: str) -> str:
    return f"example:\n  dph {name} {COMMANDS[name].example}".rstrip()


def _listed(prefix: str) -> str:
    """A line for each command of a group, or with "" for each command and group."""
    summaries = {name: command.summary for name, command in COMMANDS.items() if name.startswith(prefix)}
    if not prefix:
        summaries = {name.split()[0]: GROUPS.get(name.split()[0], summary) for name, summary in summaries.items()}
    return "\n".join(
        f"{HEADINGS.get(name, '')}  {name.removeprefix(prefix):<11} {summary}" for name, summary in summaries.items()
    )


# Of the list of commands, before the first command of each.
HEADINGS = {
    "demo": "Try it\n",
    "prepare": "\nPrepare\n",
    "train": "\nTrain\n",
    "evaluate": "\nLook at the results\n",
    "inspect": "\nCheck and serve\n",
}
GROUPS = {"prepare": "convert a published benchmark to a parquet of prompts"}
COMMANDS = {
    "demo": Command("run the whole pipeline on a tiny model, on two cores", "--methods grpo,recipe", "rl.demo.run"),
    "study": Command("train every method on the demo's task with several seeds", "--seeds 1,2,3", "rl.demo.study"),
    "prepare bird": Command(
        "BIRD, text to SQL",
        "--split train --input train.json --databases /cache",
        "rl.data.prepare.commands:bird",
    ),
    "prepare spider": Command(
        "Spider, text to SQL",
        "--split dev --input dev.json --databases database --tables tables.json",
        "rl.data.prepare.commands:spider",
    ),
    "prepare dapo": Command("DAPO-Math-17K, the math training prompts", "--download", "rl.data.prepare.commands:dapo"),
    "prepare math-eval": Command("the math test sets", "--download", "rl.data.prepare.commands:math_eval"),
    "presample": Command(
        "sample the training prompts from the initial policy", "sampling", "rl.launch.commands:presample"
    ),
    "split": Command("split the prompts into D_exp and D_pef", "--experiment qwen_math", "rl.data.split_command"),
    "store": Command(
        "write the D_pef store with reference log-probs", "experiment=qwen_math", "rl.launch.commands:store"
    ),
    "train": Command("train with a method or a baseline", TRAIN_EXAMPLE, "rl.launch.commands:train"),
    "evaluate": Command(
        "sample checkpoints and report Pass@k, keep rate and styles",
        '"evaluate.models={base:MODEL,dph_js:RUN}" evaluate.benchmarks=[bird] evaluate.output=DIR',
        "rl.launch.commands:evaluate",
    ),
    "export": Command(
        "write a trained policy as a Hugging Face folder",
        "outputs/llama-sql/my_run exported --best",
        "rl.launch.commands:export",
    ),
    "report": Command(
        "write report.json and report.html from sample files",
        "--spec outputs/demo/spec.json --out outputs/demo",
        "rl.evaluation.report.write",
    ),
    "compare": Command(
        "report finished runs side by side, also over seeds",
        "outputs/llama-sql/grpo outputs/llama-sql/my_run --out outputs/compared",
        "rl.evaluation.compare",
    ),
    "inspect": Command(
        "show what data files hold and what is wrong with them",
        "data/sql/bird_train.parquet",
        "rl.data.inspect",
    ),
    "audit": Command(
        "find gold queries that fail or return nothing",
        "data/sql/bird_train.parquet --database-path /cache",
        "rl.scorer.audit",
    ),
    "scorer": Command("serve rewards over HTTP", "-c rl/scorer/math.yaml", "rl.scorer.options"),
    "doctor": Command(
        "check the machine, its environment and a run before it starts",
        "scripts/llama/js_kl.sh my_run 0.2",
        "rl.checks.doctor",
    ),
}
# Commands whose arguments another process checks, and commands that need verl.
PASS_ON = ("presample", "store", "train", "evaluate")
NEED_VERL = ("demo", "study", "evaluate", "export")

if __name__ == "__main__":
    sys.exit(main())
