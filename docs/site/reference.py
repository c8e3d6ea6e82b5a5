"""Reference pages from the programs: `dph`'s parsers, the tables of settings, the launch scripts' --help."""

import argparse
import os
import re
import sys
from functools import partial
from pathlib import Path
from unittest import mock

from rl import cli
from rl.configuration.methods import PAPER, PREPARATION, methods
from rl.configuration.programs import PROGRAMS, shown
from rl.configuration.run import run_of
from rl.configuration.setting import Setting
from rl.evaluation import training_metrics as training
from rl.evaluation.measures import MEASURES, definitions
from rl.launch.help import help_text
from rl.metrics.pass_at_k import SOLVED_IN
from rl.metrics.styles import BY_STRUCTURE, KNOWN_STYLES

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = "scripts/llama/js_kl.sh"


def commands() -> str:
    """Every subcommand of `dph`: what it does, its usage, its options and an example."""
    return "\n\n".join(_command(name) for name in cli.COMMANDS)


def _command(name: str) -> str:
    parser = cli.parser_of(name)
    parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=100)
    summary = cli.COMMANDS[name].summary
    parts = [f"## dph {name}", *_paragraphs(parser.description or f"{summary[0].upper()}{summary[1:]}.")]
    if name == "evaluate":
        parts.append("Arguments are Hydra overrides; [settings](settings.md#evaluation) has the keys.")
    parts.append(_fenced(parser.format_usage().removeprefix("usage: ").replace("\n       ", "\n")))
    rows = [_option(action) for action in parser._actions if action.help != argparse.SUPPRESS]
    described = [row for row in rows if row]
    if described:
        parts.append("\n".join(["| argument | |", "|---|---|", *described]))
    parts.append(_fenced(f"dph {name} {cli.COMMANDS[name].example}".rstrip(), "bash"))
    return "\n\n".join(parts)


def _option(action: argparse.Action) -> str:
    """A row of the table; "" for --help, which all have, and for what says nothing about itself."""
    if not action.help or isinstance(action, argparse._HelpAction):
        return ""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    name = ", ".join(action.option_strings) or metavar or action.dest
    if action.option_strings and action.nargs != 0:
        name += f" {metavar or action.dest.upper()}"
    fields = vars(action) | {"prog": "dph"}
    return f"| `{name}` | {_cell(action.help % fields)} |"


def settings(config: str) -> str:
    """The settings of the program with `verl/dph/config/CONFIG.yaml` that verl lacks or has another default for."""
    return "\n\n".join(_setting(setting) for setting in PROGRAMS[config].changed())


def _setting(setting: Setting) -> str:
    return f"### {setting.key}\n\nDefault `{shown(setting.default)}`.\n\n{_cell(setting.help)}"


def measures() -> str:
    """What a report measures, with n samples per prompt and the known styles."""
    units = {measure.name: measure.unit for measure in MEASURES}
    rows = ["| measure | unit | definition |", "|---|---|---|"]
    for name, meaning in definitions("n", SOLVED_IN, KNOWN_STYLES, BY_STRUCTURE).items():
        rows.append(f"| `{name}` | {units.get(name, '')} | {_cell(meaning.replace('n = n', 'n'))} |")
    return "\n".join(rows)


def training_metrics() -> str:
    """What training logs: a table under each heading."""
    parts = []
    for heading, metrics in training.training_metrics().items():
        rows = [f"| `{metric.name}` | {_cell(metric.definition)} |" for metric in metrics]
        parts.append("\n".join([f"## {heading}", "", "| metric | definition |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def scorer_settings() -> str:
    """The keys of the scorer's configuration, each under its comment, as rl/scorer/sql.yaml has them."""
    blocks, comment, keys = [], [], []  # keys: of the line and of the mappings around it
    for line in (REPOSITORY / "rl" / "scorer" / "sql.yaml").read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("#"):
            comment.append(line.strip("# "))
        elif match := re.fullmatch(r"( *)(\w+):(?: (.*))?", line):
            keys[len(match[1]) // 2 :] = [match[2]]
            if match[3] is not None:
                blocks += [f"### {'.'.join(keys)}\n\nDefault `{match[3] or 'empty'}`.", _cell(" ".join(comment))]
                comment = []
        elif not keys:  # the file's own comment ends with a blank line
            comment = []
    return "\n\n".join(filter(None, blocks))


def script_variables() -> str:
    """The environment variables of the launch scripts, as `--help` prints them for the paper's SQL experiment."""
    with mock.patch.dict(os.environ, {}, clear=True):
        shown = help_text(run_of(SCRIPT, ["--help"]))
    _, _, text = shown.replace(f"{REPOSITORY}/", "").replace(sys.executable, "python").partition("current values:\n")
    return _fenced(text.strip("\n"), "bash")


def methods_of(kind: str) -> str:
    """The methods of a kind: script, arguments, description, and the variables of their own."""
    rows = ["| script | arguments | what it does | its variables |", "|---|---|---|---|"]
    for name, method in methods(*([PREPARATION, PAPER] if kind == PAPER else [kind])).items():
        own = ", ".join(f"`{variable}`" for variable in method.variables())
        words = " ".join(method.arguments)
        rows.append(f"| `{name}.sh` | `{words}` | {_cell(method.description)} | {own} |")
    return "\n".join(rows)


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip()}\n```"


def _paragraphs(text: str) -> list[str]:
    """A parser's description: prose, and blocks that are indented or tabular as they are."""
    blocks = re.split(r"\n\s*\n", text.strip())
    return [_fenced(block) if re.search(r"^ |\S {3,}\S", block, re.MULTILINE) else _cell(block) for block in blocks]


def _cell(text: str) -> str:
    """Plain text as Markdown, in a table or a paragraph."""
    text = re.sub(r"([\\`*_\[\]|$])", r"\\\1", " ".join(text.split())).replace("<", "&lt;")
    return re.sub(r"docs/((?:tutorials|howto|reference|explanation)/[\w-]+\.md)", r"[\1](../\1)", text)
