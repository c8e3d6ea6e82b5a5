"""Read the scorer's YAML file into its settings (config.py), and say in one sentence what is wrong with it."""

import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rl.common.errors import UserError
from rl.scorer.config import Settings
from rl.scorer.rewards import REWARD_MODELS, SQL_CREDITS

# What the released server's file has, and this one does not need: a section, and post-processors in Scorers.
_RELEASED_SECTION, _RELEASED_CLASSES = "Chains", ("MeanStd", "DummyPostProcessor")
# The meaning of an empty section of Scorers, as in sql.yaml.
_DEFAULT_SCORER = {"class_name": "SqlDetailRewardModel", "database_path": "/cache/"}


class _StrictLoader(yaml.SafeLoader):
    """Rejects a key that a mapping has twice; YAML's own loaders silently keep the last."""

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
    prefix and connection) and of every scorer; None replaces nothing. An empty section means its defaults. The released
    server's chains and post-processors are ignored with one warning on stderr. Raises UserError for a file that cannot
    be read, an unknown key or a value that cannot work.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: 2024-13-45, and what is not UTF-8
        reason = " ".join(str(error).split())
        raise UserError(f"The configuration {path} cannot be read: {reason}; give a YAML file with -c.") from None
    if not isinstance(content, dict):
        raise UserError(f"The configuration {path} holds no settings; give the sections ScorerServer and Scorers.")
    ignored = [_RELEASED_SECTION] if content.pop(_RELEASED_SECTION, None) is not None else []
    content["ScorerServer"] = _with(content.get("ScorerServer") or {}, server)
    if "Scorers" in content:
        scorers = content["Scorers"] or {"Scorer1": None}
        if isinstance(scorers, dict):
            scorers = {name: _with(_scorer(section, sql), every) for name, section in scorers.items()}
            others = [name for name, section in scorers.items() if _class_name(section) in _RELEASED_CLASSES]
            ignored += [f"Scorers.{name} (class_name {_class_name(scorers.pop(name))})" for name in others]
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


def _sentence(path: Path, error: ValidationError) -> str:
    """What is wrong first."""
    first = error.errors(include_url=False)[0]
    # pydantic puts the class_name, which chose the model, into the place.
    key = ".".join(str(part) for part in first["loc"] if part not in REWARD_MODELS)
    options = {"database_path": "--database-path DIR", "num_instances": "--workers N", "port": "--port N"}
    option = options.get(str(first["loc"][-1]))
    found = "" if first["type"] == "missing" else f" = {first['input']!r}"
    flag = f" (or pass {option})" if option else ""
    return f"The configuration {path} has a wrong {key}{found}: {first['msg']}{flag}."
