"""The server's settings: sql.yaml's keys, checked before anything starts. A comment above each key is in sql.yaml."""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    DirectoryPath,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from rl.common.errors import UserError

_WITHOUT_DATABASES = ("MathRewardModel", "PythonRewardModel")
_CLASS_NAMES = ("SqlDetailRewardModel", "SqlRewardModel", *_WITHOUT_DATABASES)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

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
    log_file_bytes: PositiveInt = 100_000_000
    log_responses: bool = False
    max_body_bytes: PositiveInt = 10_000_000
    max_waiting: PositiveInt = 10_000
    request_seconds: PositiveFloat = 120.0
    shutdown_seconds: PositiveInt = 20
    shutdown_token: str | None = Field(default=None, min_length=1)


class _ScorerSettings(_Section):
    """What scorers of every kind have."""

    num_instances: PositiveInt | None = None
    slow_instances: PositiveInt | None = None
    grace_seconds: PositiveFloat = 5.0
    worker_memory_bytes: PositiveInt = 512_000_000
    answer_cache_bytes: NonNegativeInt = 64_000_000

    @property
    def processes(self) -> int:
        return self.num_instances or os.cpu_count() or 1

    @property
    def slow_processes(self) -> int:
        return self.slow_instances or 4 * self.processes


class SqlSettings(_ScorerSettings):
    """A section of Scorers whose class_name is SqlDetailRewardModel or SqlRewardModel."""

    class_name: Literal["SqlDetailRewardModel", "SqlRewardModel"]
    database_path: DirectoryPath
    prediction_seconds: PositiveFloat = 15.0
    gold_seconds: PositiveFloat = 60.0
    order_check: bool = True
    max_sql_chars: PositiveInt = 1_000_000
    max_value_bytes: PositiveInt = 10_000_000
    max_result_rows: PositiveInt = 1_000_000
    max_result_bytes: PositiveInt = 64_000_000
    payload_rows: PositiveInt = 100
    payload_bytes: PositiveInt = 100_000
    gold_cache_bytes: NonNegativeInt = 256_000_000
    worker_gold_cache_bytes: NonNegativeInt = 16_000_000


class MathSettings(_ScorerSettings):
    """A section of Scorers whose class_name is MathRewardModel."""

    class_name: Literal["MathRewardModel"]
    database_path: str | None = None
    prediction_seconds: PositiveFloat = 5.0
    max_answer_chars: PositiveInt = 2_000


class TaskSettings(_ScorerSettings):
    """A section of Scorers whose class_name is PythonRewardModel: a custom task.

    task: the name in its rows' data_source. function: the file and the name of its reward function, FILE.py:NAME.
    """

    class_name: Literal["PythonRewardModel"]
    task: str = Field(min_length=1)
    function: str
    prediction_seconds: PositiveFloat = 5.0

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, function: str) -> str:
        path, _, name = function.rpartition(":")
        if not path.endswith(".py") or not name.isidentifier():
            raise ValueError("is not of the form FILE.py:FUNCTION")
        if not Path(path).is_file():
            raise ValueError(f"{path} does not exist")
        return function

    @property
    def path(self) -> Path:
        return Path(self.function.rpartition(":")[0])

    @property
    def function_name(self) -> str:
        return self.function.rpartition(":")[2]


Scorer = Annotated[SqlSettings | MathSettings | TaskSettings, Field(discriminator="class_name")]


class Settings(_Section):
    """The whole file. Scorers: by their names (Scorer1, ...), at most one for SQL, one for math and one a task."""

    ScorerServer: ServerSettings = ServerSettings()
    Scorers: dict[str, Scorer] = Field(min_length=1)

    @field_validator("Scorers")
    @classmethod
    def _one_of_each_kind(cls, scorers: dict[str, Scorer]) -> dict[str, Scorer]:
        kinds = Counter((type(scorer), getattr(scorer, "task", None)) for scorer in scorers.values())
        if max(kinds.values()) > 1:
            raise ValueError("has two scorers for questions of one kind")
        return scorers

    @property
    def sql(self) -> SqlSettings | None:
        return next((scorer for scorer in self.Scorers.values() if isinstance(scorer, SqlSettings)), None)

    @property
    def math(self) -> MathSettings | None:
        return next((scorer for scorer in self.Scorers.values() if isinstance(scorer, MathSettings)), None)

    @property
    def tasks(self) -> dict[str, TaskSettings]:
        """By the task's name."""
        return {scorer.task: scorer for scorer in self.Scorers.values() if isinstance(scorer, TaskSettings)}


def load_settings(path: Path, address: str | None, port: int | None, database_path: Path | None) -> Settings:
    """The settings of the YAML file `path`; an argument that is not None takes the place of its key.

    Raises UserError for a file that cannot be read, an unknown key or a value that cannot work.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"The configuration {path} cannot be read: {reason}; give a YAML file with -c.") from None
    if not isinstance(content, dict):
        raise UserError(f"The configuration {path} holds no settings; give the sections ScorerServer and Scorers.")
    given = {key: value for key, value in {"address": address, "port": port}.items() if value is not None}
    server, scorers = content.get("ScorerServer") or {}, content.get("Scorers")
    if given and isinstance(server, dict):  # anything else is rejected below
        content["ScorerServer"] = server | given
    if database_path is not None and isinstance(scorers, dict):
        for scorer in scorers.values():
            if isinstance(scorer, dict) and scorer.get("class_name") not in _WITHOUT_DATABASES:
                scorer["database_path"] = str(database_path)
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        raise UserError(_sentence(path, error)) from None


def _sentence(path: Path, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    # A scorer's place has its class_name in it, which chose what it was checked against.
    key = ".".join(str(part) for part in first["loc"] if part not in _CLASS_NAMES)
    if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
        found = first["input"].get("class_name") if isinstance(first["input"], dict) else first["input"]
        return f"The configuration {path} has {key}.class_name = {found!r}; use one of {', '.join(_CLASS_NAMES)}."
    if first["type"] == "extra_forbidden":
        return f"The configuration {path} has an unknown key {key}; remove it or correct its name."
    if first["type"] == "missing":
        return f"The configuration {path} lacks {key}; add it."
    if first["loc"][-1] == "database_path":
        return f"{key} is {first['input']!r}, which is no directory; create it or name another there."
    return f"The configuration {path} has {key} = {first['input']!r}: {first['msg']}; change it."
