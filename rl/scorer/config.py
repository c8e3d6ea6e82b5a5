"""The server's settings, each with its meaning and default; they are checked before anything starts.

docs/reference/settings.md lists them from here.
"""

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    DirectoryPath,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rl.common.errors import UserError
from rl.common.time_limits import REQUEST_S
from rl.scorer.rewards import REWARD_MODELS, SQL_CREDITS, SqlClassName
from rl.scorer.sandbox.confine import NETWORK, PROGRAMS, WRITES, writable
from rl.scorer.sql.engines import ENGINES, EngineName

# Similarity, from 0 to 1, at which an unknown name counts as a misspelt one of ours.
_MISSPELT = 0.8
# Settings on which no verdict depends: places, processes, caches and what is sent back.
WITHOUT_EFFECT_ON_VERDICTS = frozenset(
    ("database_path", "connection", "function", "num_instances", "slow_instances", "payload_rows", "payload_bytes")
    + ("answer_cache_bytes", "gold_cache_bytes", "worker_gold_cache_bytes")
)
# The meaning of an empty section of Scorers, as in sql.yaml.
_DEFAULT_SCORER = {"class_name": "SqlDetailRewardModel", "database_path": "/cache/"}


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("is yes or no, not a number")
    return value


# YAML's yes is true, and pydantic takes it for 1.
Integer = Annotated[int, BeforeValidator(_no_flag)]
# What the system accepts: a frame's lengths (worker.py) and SQLite's limits have 32 bits.
Seconds = Annotated[float, BeforeValidator(_no_flag), Field(gt=0, le=86_400)]
Count = Annotated[Integer, Field(gt=0, lt=2**31)]
Processes = Annotated[Integer, Field(gt=0, le=4096)]
StoredBytes = Annotated[Integer, Field(ge=0, le=2**50)]
# An `off` without quotes is false in YAML 1.1.
Sandbox = Annotated[
    Literal["auto", "required", "off"], BeforeValidator(lambda value: "off" if value is False else value)
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_means_default(cls, values: Any) -> Any:
        """Drop known keys without a value; an unknown key stays and is rejected."""
        if not isinstance(values, dict):
            return values
        return {key: value for key, value in values.items() if value is not None or key not in cls.model_fields}


class ServerSettings(_Section):
    """Section ScorerServer."""

    # An empty one (of an unset variable) would mean all addresses.
    address: str = Field(default="127.0.0.1", min_length=1)
    """Where the server listens. Any address but the loopback opens it to the network: it has no authentication."""
    port: Integer = Field(default=5001, ge=0, le=65535)
    """0 picks a free port, which the line printed at start and --address-file name."""
    log_file: Path | None = None
    """A file to which the log is appended, one JSON object per line. Without one, warnings go to stderr."""
    log_file_bytes: Integer = Field(default=100_000_000, gt=0, le=2**50)
    """Size at which log_file becomes log_file.1; three old files are kept."""
    log_responses: bool = False
    """Whether the log has the responses' text."""
    max_body_bytes: Count = 10_000_000
    """A request with a larger body is rejected with 413."""
    max_reply_bytes: Count = 10_000_000
    """Rows and errors beyond this size are left out of a reply; outcomes and scores never are."""
    max_waiting: Count = 10_000
    """How many responses may wait for a worker. A request that would exceed it gets 503 with Retry-After."""
    max_connections: Count = 4096
    """How many connections may be open, as far as the system's limit of open files allows. Others get 503."""
    request_seconds: Seconds = REQUEST_S
    """A request that takes longer gets 503; its work goes on, and asking again joins it. Clients should wait longer
    (reward_kwargs.timeout). A request that is not received within this time gets 408."""
    shutdown_seconds: Integer = Field(default=20, gt=0, le=86_400)
    """How long requests in progress may take after SIGTERM, SIGINT or PUT /shutdown."""
    shutdown_token: str | None = Field(default=None, min_length=1)
    """PUT /shutdown needs the header `Authorization: Bearer TOKEN`; without a token, it must come from the loopback."""


class ScorerSettings(_Section):
    """Settings of every kind of scorer."""

    num_instances: Processes | None = None
    """Worker processes; null: one per core."""
    slow_instances: Processes | None = None
    """Further workers, with a lower priority, for jobs of more than a tenth of a second. null: four times
    num_instances."""
    grace_seconds: Seconds = 5.0
    """A worker that exceeds the time limit of its job by this is killed."""
    worker_memory_bytes: Integer = Field(default=512_000_000, ge=16_000_000, le=2**50)
    """Memory of a worker beyond what it has when it starts."""
    answer_cache_bytes: StoredBytes = 64_000_000
    """Capacity of the cache of scores; 0: no cache."""
    sandbox: Sandbox = "auto"
    """How the kernel confines workers (docs/explanation/scoring.md). auto: by Landlock and seccomp as far as the kernel
    has them; required: by both, or the server does not start; off: not at all."""

    @property
    def kind(self) -> str:
        """sql, math or task; after a colon the prefix or the task's name, if there is one."""
        raise NotImplementedError

    @property
    def processes(self) -> int:
        return self.num_instances or os.cpu_count() or 1

    @property
    def slow_processes(self) -> int:
        return self.slow_instances or 4 * self.processes


class SqlSettings(ScorerSettings):
    """A section of Scorers whose class_name is one of SQL_CREDITS."""

    class_name: SqlClassName
    """The reward model: the score of a result that differs from gold's (docs/reference/scorer.md)."""
    engine: EngineName = "sqlite"
    """sqlite, duckdb or postgresql. A server may have a section for each."""
    prefix: str = ""
    """What the db_ids of this section begin with. The longest prefix that fits chooses the section, and the rest of the
    db_id names the database."""
    connection: str | None = Field(default=None, validate_default=True)
    """Only for postgresql: libpq's connection string, such as "host=/var/run/postgresql user=scorer"."""
    database_path: DirectoryPath | None = Field(default=None, validate_default=True)
    """The folder with the databases of sqlite and duckdb; a db_id is a path below it."""
    prediction_seconds: Seconds = 15.0
    """Time limit of a predicted query, in seconds of processor time."""
    gold_seconds: Seconds = 60.0
    """Time limit of a gold query, in seconds of processor time."""
    order_check: bool = True
    """Whether `spider` compares the order of rows if gold has a top-level ORDER BY. The released server did not."""
    judge_empty_gold: bool = True
    """Whether responses are scored if gold returns no rows, or nothing but NULL: any query that also returns nothing is
    then right. false: they get no judgement (gold_empty), and training leaves them out."""
    max_sql_chars: Count = 1_000_000
    """Length of a query."""
    max_value_bytes: Count = 10_000_000
    """Size of one value."""
    max_result_rows: Count = 1_000_000
    """Rows of one result."""
    max_result_bytes: Count = 64_000_000
    """Size of one result."""
    payload_rows: Count = 100
    """Cap of the rows sent back; scores do not depend on it."""
    payload_bytes: Count = 100_000
    """Cap of the size of the rows sent back."""
    gold_cache_bytes: StoredBytes = 256_000_000
    """Capacity of the server's cache of gold results; 0: no cache."""
    worker_gold_cache_bytes: StoredBytes = 16_000_000
    """Capacity of each worker's cache of gold results; 0: no cache."""

    @field_validator("connection", "database_path", mode="before")
    @classmethod
    def _belongs_to_the_engine(cls, value: Any, info: ValidationInfo) -> Any:
        engine = info.data.get("engine")
        if (info.field_name == "connection") == (engine in ENGINES and ENGINES[engine].in_server):
            if value is None:
                raise PydanticCustomError("missing", "is missing")
        elif value is not None:
            raise ValueError(f"is not for the engine {engine}")
        return value

    @property
    def kind(self) -> str:
        return f"sql:{self.prefix}" if self.prefix else "sql"


class MathSettings(ScorerSettings):
    """A section of Scorers whose class_name is MathRewardModel."""

    class_name: Literal["MathRewardModel"]
    database_path: str | None = None
    """Not used: the released server's configurations have it for every scorer."""
    prediction_seconds: Seconds = 5.0
    """Time limit of one comparison, in seconds of processor time."""
    max_answer_chars: Count = 2_000
    """A longer answer is a pred_error, a longer ground truth a gold_error."""

    @property
    def kind(self) -> str:
        return "math"


class TaskSettings(ScorerSettings):
    """A section of Scorers whose class_name is PythonRewardModel: a task of your own."""

    class_name: Literal["PythonRewardModel"]
    task: str = Field(min_length=1)
    """The name in the data_source of its rows."""
    function: str
    """The reward function, FILE.py:NAME."""
    prediction_seconds: Seconds = 5.0
    """Time limit of one response, in seconds of processor time."""
    wall_seconds: Seconds = 60.0
    """Time limit of one response by the clock, for a function that waits."""
    allow: tuple[str, ...] = ()
    """What the function may do besides reading and computing: network, subprocess, write:PATH."""

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, function: str) -> str:
        path, _, name = function.rpartition(":")
        if not path.endswith(".py") or not name.isidentifier():
            raise ValueError("is not of the form FILE.py:FUNCTION")
        if not Path(path).is_file():
            raise ValueError(f"{path} does not exist")
        return function

    @field_validator("allow")
    @classmethod
    def _known_and_existing(cls, allow: tuple[str, ...]) -> tuple[str, ...]:
        for entry in allow:
            if entry not in (NETWORK, PROGRAMS) and entry.removeprefix(WRITES) in (entry, ""):
                raise ValueError(f"has {entry!r}, which is not one of {NETWORK}, {PROGRAMS} and {WRITES}PATH")
        for path in writable(allow):
            if not Path(path).exists():
                raise ValueError(f"has {WRITES}{path}, but {path} does not exist")
        return allow

    @property
    def kind(self) -> str:
        return f"task:{self.task}"

    @property
    def path(self) -> Path:
        return Path(self.function.rpartition(":")[0])

    @property
    def function_name(self) -> str:
        return self.function.rpartition(":")[2]


Scorer = Annotated[SqlSettings | MathSettings | TaskSettings, Field(discriminator="class_name")]


class Settings(_Section):
    """The whole file. Scorers has at most one section for each prefix of SQL, one for math and one for each task."""

    ScorerServer: ServerSettings = ServerSettings()
    Scorers: dict[str, Scorer] = Field(min_length=1)

    @field_validator("Scorers")
    @classmethod
    def _one_of_each_kind(cls, scorers: dict[str, Scorer]) -> dict[str, Scorer]:
        if len({scorer.kind for scorer in scorers.values()}) < len(scorers):
            raise ValueError("has two scorers for questions of one kind")
        return scorers

    @property
    def served(self) -> list[dict[str, str]]:
        """What each scorer serves, so that clients notice a wrong server."""
        scorers = []
        for scorer in self.Scorers.values():
            found = {"kind": scorer.kind, "class_name": scorer.class_name}
            if isinstance(scorer, SqlSettings):
                found |= {"engine": scorer.engine}
                if scorer.database_path is not None:
                    found["database_path"] = str(scorer.database_path.resolve())
            scorers.append(found)
        return scorers

    @property
    def verdict_sha256(self) -> str:
        """Equal for servers that judge alike on equal databases: of limits, rules and the text of tasks' functions and
        of the modules beside them that they import."""
        judging = []
        for scorer in self.Scorers.values():
            settings = scorer.model_dump(mode="json", exclude=WITHOUT_EFFECT_ON_VERDICTS)
            if isinstance(scorer, TaskSettings):
                text = {
                    str(path.relative_to(scorer.path.resolve().parent)): hashlib.sha256(path.read_bytes()).hexdigest()
                    for path in _modules(scorer.path)
                }
                settings |= {"function": scorer.function_name, "text": text}
            judging.append((scorer.kind, settings))
        return hashlib.sha256(json.dumps(sorted(judging), sort_keys=True).encode()).hexdigest()

    @property
    def sql(self) -> list[SqlSettings]:
        return [scorer for scorer in self.Scorers.values() if isinstance(scorer, SqlSettings)]


def _modules(file: Path) -> list[Path]:
    """A Python file and the modules and packages beside it that it imports, and those that these import."""
    found, waiting, folder = list[Path](), [file.resolve()], file.resolve().parent
    while waiting:
        if (path := waiting.pop()) in found or not path.is_file():
            continue
        found.append(path)
        try:
            nodes = list(ast.walk(ast.parse(path.read_bytes())))
        except (SyntaxError, ValueError, RecursionError):  # the server rejects it when it loads the function
            continue
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        for name in {name.partition(".")[0] for name in names}:
            waiting += [folder / f"{name}.py", *(folder / name).rglob("*.py")]
    return sorted(found)


class _StrictLoader(yaml.SafeLoader):
    """Rejects a wrong scalar, and a key that a mapping has twice; YAML's own loaders silently keep the last."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
            if isinstance(value, str):
                value.encode()  # half a surrogate pair has no UTF-8
        # As PyYAML raises them for 2024-13-45, !!timestamp x and !!bool x.
        except (ValueError, AttributeError, KeyError):
            kind = node.tag.rpartition(":")[2]
            reason = f"{node.value!r} in line {node.start_mark.line + 1} is not a valid value of the type {kind}"
            raise yaml.YAMLError(reason) from None
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.YAMLError(f"it has the key {key.value} twice (line {key.start_mark.line + 1})")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_settings(
    path: Path, server: dict | None = None, sql: dict | None = None, every: dict | None = None
) -> Settings:
    """The settings of the YAML file `path`.

    `server`, `sql` and `every` replace values of ScorerServer, of the scorers for SQL (database_path: of those without
    prefix and connection) and of every scorer; None replaces nothing. An empty section means its defaults. Unknown
    sections, such as the released server's chains and post-processors, are ignored with one warning on stderr. Raises
    UserError for a file that cannot be read, an unknown key of a known section or a value that cannot work.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"The configuration {path} cannot be read: {reason}; give a YAML file with -c.") from None
    if not isinstance(content, dict):
        raise UserError(f"The configuration {path} holds no settings; give the sections ScorerServer and Scorers.")
    ignored = [name for name in content if _foreign(name, Settings.model_fields)]
    content = {name: section for name, section in content.items() if name not in ignored}
    content["ScorerServer"] = _with(content.get("ScorerServer") or {}, server)
    if "Scorers" in content:
        scorers = content["Scorers"] or {"Scorer1": None}
        if isinstance(scorers, dict):
            scorers = {name: _with(_scorer(section, sql), every) for name, section in scorers.items()}
            foreign = [name for name in scorers if _foreign(_class_name(scorers[name]), REWARD_MODELS)]
            if len(foreign) < len(scorers):  # if nothing would be served, the first is rejected below
                ignored += [f"Scorers.{name} (class_name {_class_name(scorers.pop(name))})" for name in foreign]
        content["Scorers"] = scorers
    try:
        settings = Settings.model_validate(content)
    except ValidationError as error:
        # The server has --workers for every scorer; the audit has options that are called like the keys.
        named = _with(_with({}, server), sql).items()
        given = {(key, repr(value)): f"--{key.replace('_', '-')}" for key, value in named}
        given |= {(key, repr(value)): "--workers" for key, value in _with({}, every).items()}
        raise UserError(_sentence(path, error, given)) from None
    if ignored:
        names = ", ".join(ignored)
        sys.stderr.write(f"Warning: {path} has sections that this server does not know and ignores: {names}.\n")
    return settings


def _with(section: Any, values: dict | None) -> Any:
    """A section with the values that are not None; anything but a mapping is rejected later."""
    if not isinstance(section, dict):
        return section
    return section | {key: value for key, value in (values or {}).items() if value is not None}


def _scorer(section: Any, sql: dict | None) -> Any:
    """A section of Scorers, or the default for an empty one; with the values `sql` if it is for SQL."""
    if section in (None, {}):
        section = _DEFAULT_SCORER
    if _class_name(section) not in SQL_CREDITS:
        return section
    other_root = section.get("prefix") or section.get("connection")
    return _with(section, (sql or {}) | ({"database_path": None} if other_root else {}))


def _class_name(section: Any) -> str | None:
    name = section.get("class_name") if isinstance(section, dict) else None
    return name if isinstance(name, str) else None


def _foreign(name: Any, ours: Iterable[str]) -> bool:
    """Whether the name is unlike all of ours; a similar one is a mistake, which is rejected."""
    return isinstance(name, str) and not get_close_matches(name.lower(), map(str.lower, ours), cutoff=_MISSPELT)


def _sentence(path: Path, error: ValidationError, given: Mapping[tuple[str, str], str]) -> str:
    """What is wrong first. given: the options of the command line by the key and the value that they replace."""
    first = error.errors(include_url=False)[0]
    # pydantic puts the class_name, which chose the model, into the place.
    key = ".".join(str(part) for part in first["loc"] if part not in REWARD_MODELS)
    flags = {"database_path": " or pass --database-path DIR", "num_instances": " or pass --workers N"}
    flag = flags.get(last := str(first["loc"][-1]), "")
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        found, names = _class_name(first["input"]), ", ".join(REWARD_MODELS)
        return f"The configuration {path} has {key}.class_name = {found!r}; use one of {names}."
    if first["type"] == "extra_forbidden":
        return f"The configuration {path} has an unknown key {key}; remove it or correct its name."
    if first["type"] == "missing":
        return f"The configuration {path} lacks {key}; add it{flag}."
    if first["type"] == "path_not_directory":
        return f"{key} is '{first['input']}', which is not a directory; create it{flag}."
    if option := given.get((last, repr(first["input"]))):
        return f"{option} is {first['input']!r}: {first['msg']}; change it."
    return f"The configuration {path} has {key} = {first['input']!r}: {first['msg']}; change it{flag}."
