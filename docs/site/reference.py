"""Reference pages from the programs: `dph`'s parsers, the tables of settings, the files of methods."""

import argparse
import json
import re
from functools import partial
from pathlib import Path

from rl import cli
from rl.common import training_metrics as training
from rl.configuration import CONFIG_DIR
from rl.configuration.methods import PAPER, PREPARATION, methods
from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import Setting, settings_of
from rl.data.benchmarks import DATA_SOURCES, DATASETS, MATH, SQL, MathDataset, SqlDataset
from rl.data.questions import TASK_PREFIX
from rl.evaluation.measures import MEASURES, definitions
from rl.metrics.pass_at_k import SOLVED_IN
from rl.metrics.styles import BY_STRUCTURE, KNOWN_STYLES
from rl.scorer.config import MathSettings, ScorerSettings, ServerSettings, SqlSettings, TaskSettings
from rl.scorer.rewards import REWARD_MODELS, SQL_CREDITS
from rl.scorer.sql.compare import COMPARISONS, GoldRows
from rl.scorer.sql.engines import ENGINES

REPOSITORY = Path(__file__).resolve().parents[2]
LONGEST_LABEL = 24  # characters of a line of the site's contents


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
    parts: dict[str, list[str]] = {}
    for setting in settings_of(PROGRAMS[config]):
        section, _, name = setting.key.rpartition(".")
        short = ".".join(section.split(".")[-2:])
        short = short if len(short) <= LONGEST_LABEL else section.split(".")[-1]
        label = f'{{: data-toc-label="{short}" }}'
        parts.setdefault(section, [f"### {section} {label}"]).append(_setting(name, setting))
    return "\n\n".join(part for of_section in parts.values() for part in of_section)


def _setting(name: str, setting: Setting) -> str:
    default = setting.default if isinstance(setting.default, str) and setting.default else json.dumps(setting.default)
    return f"#### {name}\n\n`{setting.key}={default}`\n\n{_cell(setting.help)}"


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
        rows = [f"| `{metric['name']}` | {_cell(metric['definition'])} |" for metric in metrics]
        parts.append("\n".join([f"### {heading}", "", "| metric | definition |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def benchmarks() -> str:
    """The data sets: their published files, the command that prepares them, responses per prompt in the evaluation."""
    rows = ["| name | published files | `dph prepare` and | evaluated with |", "|---|---|---|---|"]
    for data in DATASETS.values():
        if isinstance(data, SqlDataset):
            files, home = data.published, data.home
            variant = f" --variant {data.variant}" if data.variant else ""
            command = f"{data.program}{variant} --split SPLIT"
        elif isinstance(data, MathDataset):
            files, home = data.hub.file, f"https://huggingface.co/datasets/{data.hub.repository}"
            command = f"math-eval --only {data.name}" if "test" in data.id_blocks else "dapo"
        splits = ", ".join(f"{split} {block}" for split, block in data.id_blocks.items())
        responses = f"{data.samples} responses" if data.samples else ""
        rows.append(f"| `{data.name}` ({splits}) | [{_cell(files)}]({home}) | `{command}` | {responses} |")
    return "\n".join(rows)


def data_sources() -> str:
    """The rewards by the rows' data_source."""
    answers = {
        SQL: f"`db_id`, `gold_sql`, `cmp_method` ({' or '.join(COMPARISONS)}) | execution of the last SQL block",
        MATH: "the answer, as text or a whole number | math-verify on the last `\\boxed{}` or Answer: line",
    }
    rows = ["| data_source | `reward_model.ground_truth` | reward |", "|---|---|---|"]
    for kind, patterns in DATA_SOURCES.items():
        rows.append(f"| {', '.join(f'`{pattern}`' for pattern in patterns)} | {answers[kind]} |")
    own = "your own Python function ([tutorial](../tutorials/own-task.md))"
    return "\n".join([*rows, f"| `{TASK_PREFIX}NAME` | any JSON value | {own} |"])


def scorer_settings() -> str:
    """The keys of the scorer's configuration, a table for each kind of section."""
    sections = {
        "ScorerServer": ServerSettings,
        "Every section of Scorers": ScorerSettings,
        "Sections for SQL": SqlSettings,
        "Sections for math": MathSettings,
        "Sections for a task of your own": TaskSettings,
    }
    parts = []
    for title, section in sections.items():
        inherited = set() if section is ScorerSettings else set(ScorerSettings.model_fields)
        parts.append("\n".join([f"### {title}", "", "| key | default | |", "|---|---|---|"]))
        for name, field in section.model_fields.items():
            if field.description and name not in inherited:
                default = "required" if field.is_required() else f"`{json.dumps(field.default)}`"
                parts[-1] += f"\n| `{name}` | {default} | {_cell(field.description)} |"
    return "\n\n".join(parts)


def reward_models() -> str:
    """The reward models for SQL."""
    rows = ["| `class_name` | a result that differs from gold's | |", "|---|---|---|"]
    rows += [
        f"| `{name}` | {_cell(of.scores)} | {_cell(of.source)} |" for name, of in REWARD_MODELS.items() if of.credit
    ]
    return "\n".join(rows)


# Gold and prediction, in words and as rows; S is a query of two columns and three rows.
_S = [("Ada", "Reds"), ("Ben", "Blues"), ("Dot", None)]
_GUESSES: dict[tuple[str, str], tuple[list[tuple], list[tuple]]] = {
    ("a row 1, 1, 1, Ada", "a constant, `SELECT 1`"): ([(1, 1, 1, "Ada")], [(1,)]),
    ("S", "a cross join of S's columns"): (_S, [(name, team) for name, _ in _S for _, team in _S]),
    ("S", "one of S's columns"): (_S, [(name,) for name, _ in _S]),
    ("S", "S's columns and two more"): (_S, [(*row, number, -number) for number, row in enumerate(_S, 1)]),
}


def guesses() -> str:
    """What guesses get of each reward model for SQL."""
    rows = ["| gold | prediction | " + " | ".join(f"`{name}`" for name in SQL_CREDITS) + " |"]
    rows.append("|---" * (2 + len(SQL_CREDITS)) + "|")
    for (gold, prediction), (wanted, found) in _GUESSES.items():
        scores = [f"{credit(GoldRows(wanted, ordered=False), found):.2f}" for credit in SQL_CREDITS.values()]
        rows.append(f"| {' | '.join([gold, prediction, *scores])} |")
    return "\n".join(rows)


def engines() -> str:
    """The engines for SQL."""
    rows = ["| `engine` | a `db_id` names | suffixes | driver |", "|---|---|---|---|"]
    for name, of in ENGINES.items():
        rows.append(f"| `{name}` | {of.databases} | {', '.join(of.suffixes)} | {of.package or ''} |")
    return "\n".join(rows)


def environment_variables() -> str:
    """The file that names the environment variables."""
    return _fenced((CONFIG_DIR / "experiment" / "base" / "environment.yaml").read_text(), "yaml")


# Of the paper's experiments: the model in a word, the folder of scripts, and the experiment that is not its default.
_EXPERIMENTS = {
    "llama-sql": ("Llama", "llama", ""),
    "omnisql-32b": ("OmniSQL", "llama", " experiment=omnisql_sql"),
    "llama-math": ("Llama", "qwen", " experiment=llama_math"),
    "qwen-math": ("Qwen", "qwen", ""),
}
# Of the methods in the paper's tables: the script, and the paper's eta where the row's label has none.
_SCRIPTS = {
    "grpo": ("grpo", ""),
    "dapo": ("dapo", ""),
    "rkl": ("reverse_kl", "0.01"),
    "dph_f": ("forward_kl", "0.01"),
    "alpha": ("alpha", "0.01"),
    "dph_js_def": ("js_definition", "0.2"),
    "dph_js": ("js_kl", "0.2"),
}


def paper_table(number: str, trained: bool = True) -> str:
    """A table of the paper, in per cent, with the command of each row if this table's models are trained for it."""
    tables = json.loads((REPOSITORY / "rl" / "evaluation" / "paper" / "paper.json").read_text())["tables"]
    found = [table for table in tables if table["number"] == number]
    columns = [f"{DATASETS[name].label} {metric}" for name, metric in found[0]["columns"]]
    columns += ["average"] * ("average" in found[0]["rows"][0])
    columns = ["model", "method", *["command"] * trained, *columns]
    rows = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for table in found:
        model, folder, experiment = _EXPERIMENTS[table["setting"]]
        for row in (row for row in table["rows"] if row["group"] != "Other Models"):
            label = f"{row['group']}, {row['label']}" if " = " in row["label"] else row["label"]
            words = f"`bash scripts/{folder}/{_words(row)}{experiment}`" if row["method"] != "base" else ""
            values = [*row["values"], *([row["average"]] if "average" in row else [])]
            rows.append(f"| {' | '.join([model, label, *[words] * trained, *map(str, values)])} |")
    return "\n".join(rows)


def _words(row: dict) -> str:
    """A script with its arguments: name, eta, alpha."""
    script, eta = next(of for name, of in _SCRIPTS.items() if row["method"].startswith(name))
    symbol, _, value = row["label"].partition(" = ")
    eta, alpha = (value, "") if symbol == "η" else (eta, value)
    return " ".join(filter(None, (f"{script}.sh", row["method"], eta, alpha)))


def methods_of(kind: str) -> str:
    """The methods of a kind: script, arguments and description."""
    rows = ["| script | arguments | what it does |", "|---|---|---|"]
    for name, method in methods(*([PREPARATION, PAPER] if kind == PAPER else [kind])).items():
        rows.append(f"| `{name}.sh` | `{method.launch['arguments']}` | {_cell(method.description)} |")
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
