"""The server's settings: sql.yaml's keys, checked before anything starts. A comment above each key is in sql.yaml."""

import os
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, DirectoryPath, Field, PositiveFloat, PositiveInt, ValidationError


class ConfigError(Exception):
    """A wrong setting: one sentence that names it, what was found and what to do."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(_Section):
    """Section ScorerServer."""

    address: str = "127.0.0.1"
    port: int = Field(default=5001, ge=0, le=65535)
    log_file: Path | None = None
    max_body_bytes: PositiveInt = 10_000_000
    shutdown_seconds: PositiveInt = 20


class ScorerSettings(_Section):
    """Section Scorers.Scorer1."""

    class_name: Literal["SqlDetailRewardModel", "SqlRewardModel"]
    database_path: DirectoryPath
    num_instances: PositiveInt | None = None
    prediction_seconds: PositiveFloat = 15.0
    gold_seconds: PositiveFloat = 60.0
    grace_seconds: PositiveFloat = 5.0
    order_check: bool = True
    max_sql_chars: PositiveInt = 1_000_000
    max_value_bytes: PositiveInt = 10_000_000
    max_result_rows: PositiveInt = 1_000_000
    max_result_bytes: PositiveInt = 64_000_000
    worker_memory_bytes: PositiveInt = 512_000_000
    payload_rows: PositiveInt = 100
    payload_bytes: PositiveInt = 100_000
    gold_cache_bytes: PositiveInt = 256_000_000
    worker_gold_cache_bytes: PositiveInt = 16_000_000
    answer_cache_bytes: PositiveInt = 64_000_000

    @property
    def partial_credit(self) -> bool:
        return self.class_name == "SqlDetailRewardModel"

    @property
    def processes(self) -> int:
        return self.num_instances or os.cpu_count() or 1


class _Scorers(_Section):
    Scorer1: ScorerSettings


class Settings(_Section):
    """The whole file."""

    ScorerServer: ServerSettings = ServerSettings()
    Scorers: _Scorers


def load_settings(path: Path, address: str | None, port: int | None, database_path: Path | None) -> Settings:
    """The settings of the YAML file `path`; an argument that is not None takes the place of its key.

    Raises ConfigError for a file that cannot be read, an unknown key or a value that cannot work.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"The configuration {path} cannot be read: {reason}; give a YAML file with -c.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"The configuration {path} holds no settings; give the sections ScorerServer and Scorers.")
    _override(content, ("ScorerServer", "address"), address)
    _override(content, ("ScorerServer", "port"), port)
    _override(content, ("Scorers", "Scorer1", "database_path"), None if database_path is None else str(database_path))
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        raise ConfigError(_sentence(path, error)) from None


def _override(content: dict, keys: tuple[str, ...], value: object) -> None:
    if value is None:
        return
    *sections, last = keys
    for section in sections:
        content = content.setdefault(section, {})
        if not isinstance(content, dict):
            # The check of the whole names this section.
            return
    content[last] = value


def _sentence(path: Path, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"The configuration {path} has an unknown key {key}; remove it or mend its name."
    if first["type"] == "missing":
        return f"The configuration {path} lacks {key}; add it."
    if first["loc"][-1] == "database_path":
        return f"{key} is {first['input']!r}, which is no directory; create it or give another with --database-path."
    return f"The configuration {path} has {key} = {first['input']!r}: {first['msg']}; change it."
