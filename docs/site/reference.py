"""Reference pages from the programs: `dph`'s parsers, the comments of the YAML files, the launch scripts' --help."""

import argparse
import re
import subprocess
from functools import partial
from pathlib import Path

from rl import cli
from rl.common.config_help import documented_keys, program_help
from rl.evaluation.measures import MEASURES, definitions
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
    """The keys of the program with `verl/dph/config/CONFIG.yaml`, with defaults and comments."""
    head = program_help("", config).index("# Machine")  # the usage is above it
    return _keys(program_help("", config)[head:].splitlines())


def measures() -> str:
    """What a report measures, with n samples per prompt and the known styles."""
    units = {measure.name: measure.unit for measure in MEASURES}
    rows = ["| measure | unit | definition |", "|---|---|---|"]
    for name, meaning in definitions("n", SOLVED_IN, KNOWN_STYLES, BY_STRUCTURE).items():
        rows.append(f"| `{name}` | {units.get(name, '')} | {_cell(meaning.replace('n = n', 'n'))} |")
    return "\n".join(rows)


def scorer_settings() -> str:
    """The keys of the scorer's configuration."""
    lines = (REPOSITORY / "rl" / "scorer" / "sql.yaml").read_text(encoding="utf-8").splitlines()
    return _keys(documented_keys(lines))


def _keys(lines: list[str]) -> str:
    """Keys with their defaults as headings, each group's comment below the last of them."""
    shown, comment, names = [], [], []
    for line in [*lines, ""]:
        if line.startswith("#"):
            comment.append(line.lstrip("# "))
        elif "=" in line:
            names.append(line)
        elif names:
            shown += [
                f"### {key}\n\nDefault `{value or 'empty'}`." for key, _, value in (n.partition("=") for n in names)
            ]
            if comment:
                shown.append(_cell(" ".join(comment)))
            comment, names = [], []
        elif not line:
            comment = []
    return "\n\n".join(shown)


def script_variables() -> str:
    """The environment variables of the launch scripts, as `--help` prints them for the paper's SQL experiment."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}
    command = ["bash", str(REPOSITORY / SCRIPT), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    _, _, text = done.stdout.replace(f"{REPOSITORY}/", "").partition("current values:\n")
    return _fenced(text.strip("\n"), "bash")


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
