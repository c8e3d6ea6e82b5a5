"""The server's settings: sql.yaml's keys, checked before anything starts. A comment above each key is in sql.yaml."""

import os
import sys
from collections.abc import Iterable
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
from rl.scorer.niceness import may_renice
from rl.scorer.sandbox.confine import NETWORK, PROGRAMS, WRITES, writable
from rl.scorer.sql.rewards import REWARD_MODELS, SqlClassName

_SQL_CLASS_NAMES = tuple(REWARD_MODELS)
_CLASS_NAMES = (*_SQL_CLASS_NAMES, "MathRewardModel", "PythonRewardModel")
# How like one of ours a name is, of 0 to 1, that is taken for a mistake.
_MISSPELT = 0.8
# What an empty section of Scorers stands for, as in sql.yaml.
_DEFAULT_SCORER = {"class_name": "SqlDetailRewardModel", "database_path": "/cache/"}

# Within what the system takes: a frame's lengths (frames.py) and SQLite's limits have 32 bits.
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(gt=0, lt=2**31)]
Engine = Literal["sqlite", "duckdb", "postgresql"]
Processes = Annotated[int, Field(gt=0, le=4096)]
StoredBytes = Annotated[int, Field(ge=0, le=2**50)]
# An `off` without quotes is false in YAML 1.1.
Sandbox = Annotated[
    Literal["auto", "required", "off"], BeforeValidator(lambda value: "off" if value is False else value)
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _empty_means_default(cls, values: Any) -> Any:
        """Drop known keys without a value; an unknown key stays and is rejected."""
        if not isinstance(values, dict):
            return values
        return {key: value for key, value in values.items() if value is not None or key not in cls.model_fields}


class ServerSettings(_Section):
    """Section ScorerServer."""

    address: str = "127.0.0.1"
    port: int = Field(default=5001, ge=0, le=65535)
    log_file: Path | None = None
    log_file_bytes: int = Field(default=100_000_000, gt=0, le=2**50)
    log_responses: bool = False
    max_body_bytes: Count = 10_000_000
    max_reply_bytes: Count = 10_000_000
    max_waiting: Count = 10_000
    max_connections: Count = 4096
    request_seconds: Seconds = REQUEST_S
    shutdown_seconds: int = Field(default=20, gt=0, le=86_400)
    shutdown_token: str | None = Field(default=None, min_length=1)


class ScorerSettings(_Section):
    """What scorers of every kind have."""

    num_instances: Processes | None = None
    slow_instances: Processes | None = None
    grace_seconds: Seconds = 5.0
    worker_memory_bytes: int = Field(default=512_000_000, ge=16_000_000, le=2**50)
    answer_cache_bytes: StoredBytes = 64_000_000
    sandbox: Sandbox = "auto"

    @property
    def kind(self) -> str:
        """sql, math or task; behind a colon the prefix or the name, if there is one."""
        raise NotImplementedError

    @property
    def processes(self) -> int:
        return self.num_instances or os.cpu_count() or 1

    @property
    def slow_processes(self) -> int:
        # At one priority with the ordinary workers, more would take most of the processors from them.
        return self.slow_instances or (4 if may_renice() else 1) * self.processes


class SqlSettings(ScorerSettings):
    """A section of Scorers whose class_name is one of REWARD_MODELS.

    prefix: what the db_ids of its databases begin with. connection: libpq's connection string, of PostgreSQL, which has
    no database_path.
    """

    class_name: SqlClassName
    engine: Engine = "sqlite"
    prefix: str = ""
    connection: str | None = Field(default=None, validate_default=True)
    database_path: DirectoryPath | None = Field(default=None, validate_default=True)
    prediction_seconds: Seconds = 15.0
    gold_seconds: Seconds = 60.0
    order_check: bool = True
    judge_empty_gold: bool = True
    max_sql_chars: Count = 1_000_000
    max_value_bytes: Count = 10_000_000
    max_result_rows: Count = 1_000_000
    max_result_bytes: Count = 64_000_000
    payload_rows: Count = 100
    payload_bytes: Count = 100_000
    gold_cache_bytes: StoredBytes = 256_000_000
    worker_gold_cache_bytes: StoredBytes = 16_000_000

    @field_validator("connection", "database_path", mode="before")
    @classmethod
    def _belongs_to_the_engine(cls, value: Any, info: ValidationInfo) -> Any:
        engine = info.data.get("engine")
        if (info.field_name == "connection") == (engine == "postgresql"):
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
    prediction_seconds: Seconds = 5.0
    max_answer_chars: Count = 2_000

    @property
    def kind(self) -> str:
        return "math"


class TaskSettings(ScorerSettings):
    """A section of Scorers whose class_name is PythonRewardModel: a custom task.

    task: the name in its rows' data_source. function: the file and the name of its reward function, FILE.py:NAME.
    wall_seconds: time limit of one response by the clock, for a function that waits. allow: what the function may do
    beside reading and computing: network, subprocess, write:PATH.
    """

    class_name: Literal["PythonRewardModel"]
    task: str = Field(min_length=1)
    function: str
    prediction_seconds: Seconds = 5.0
    wall_seconds: Seconds = 60.0
    allow: tuple[str, ...] = ()

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
            if entry not in (NETWORK, PROGRAMS) and not entry.startswith(WRITES):
                raise ValueError(f"has {entry!r}, which is none of {NETWORK}, {PROGRAMS} and {WRITES}PATH")
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
    """The whole file. Scorers by their names (Scorer1, ...): at most one a prefix for SQL, one for math, one a task."""

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
        """What each scorer serves, for clients that expect something else."""
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
    def sql(self) -> list[SqlSettings]:
        return [scorer for scorer in self.Scorers.values() if isinstance(scorer, SqlSettings)]


class _UniqueKeys(yaml.SafeLoader):
    """Rejects a key that a mapping has twice, of which YAML's loaders keep the last."""

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

    `server`, `sql` and `every` have values that take the place of those in ScorerServer, in the scorers for SQL
    (database_path: in one without a prefix) and in every scorer; None is no value. An empty section means its defaults.
    Sections that the server does not know, such as the released server's chains and post-processors, are ignored with
    one warning on stderr. Raises UserError for a file that cannot be read, an unknown key of a known section or a value
    that cannot work.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)
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
            foreign = [name for name in scorers if _foreign(_class_name(scorers[name]), _CLASS_NAMES)]
            if len(foreign) < len(scorers):  # else there is nothing to serve: the first is rejected
                ignored += [f"Scorers.{name} (class_name {_class_name(scorers.pop(name))})" for name in foreign]
        content["Scorers"] = scorers
    try:
        settings = Settings.model_validate(content)
    except ValidationError as error:
        raise UserError(_sentence(path, error)) from None
    if ignored:
        names = ", ".join(ignored)
        sys.stderr.write(f"Warning: {path} has sections that this server does not know and ignores: {names}.\n")
    return settings


def _with(section: Any, values: dict | None) -> Any:
    """A section with those of the values that are not None; anything but a mapping is rejected later."""
    if not isinstance(section, dict):
        return section
    return section | {key: value for key, value in (values or {}).items() if value is not None}


def _scorer(section: Any, sql: dict | None) -> Any:
    """A section of Scorers, with the default in the place of an empty one, and with `sql` if it is for SQL."""
    if section in (None, {}):
        section = _DEFAULT_SCORER
    if _class_name(section) not in _SQL_CLASS_NAMES:
        return section
    other_root = section.get("prefix") or section.get("connection")
    return _with(section, (sql or {}) | ({"database_path": None} if other_root else {}))


def _class_name(section: Any) -> Any:
    return section.get("class_name") if isinstance(section, dict) else None


def _foreign(name: Any, ours: Iterable[str]) -> bool:
    """Whether the name is nothing of ours; one that is nearly ours is a mistake, which is rejected."""
    return isinstance(name, str) and not get_close_matches(name, ours, cutoff=_MISSPELT)


def _sentence(path: Path, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    # A scorer's place has its class_name in it, which chose what it was checked against.
    key = ".".join(str(part) for part in first["loc"] if part not in _CLASS_NAMES)
    flags = {"database_path": " or pass --database-path DIR", "num_instances": " or pass --workers N"}
    flag = flags.get(str(first["loc"][-1]), "")
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        found, names = _class_name(first["input"]), ", ".join(_CLASS_NAMES)
        return f"The configuration {path} has {key}.class_name = {found!r}; use one of {names}."
    if first["type"] == "extra_forbidden":
        return f"The configuration {path} has an unknown key {key}; remove it or correct its name."
    if first["type"] == "missing":
        return f"The configuration {path} lacks {key}; add it{flag}."
    if first["type"] == "path_not_directory":
        return f"{key} is '{first['input']}', which is no directory; create it{flag}."
    return f"The configuration {path} has {key} = {first['input']!r}: {first['msg']}; change it{flag}."
