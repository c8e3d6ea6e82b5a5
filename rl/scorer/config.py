"""The server's settings, each with its meaning and default; they are checked before anything starts.

docs/reference/settings.md lists them from here.
"""

import ast
import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    DirectoryPath,
    Field,
    Strict,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from rl.common.time_limits import REQUEST_S
from rl.scorer.rewards import SqlClassName
from rl.scorer.sandbox.confine import NETWORK, PROGRAMS, WRITES, writable
from rl.scorer.sql.engines import ENGINES, EngineName

# Settings on which no verdict depends: places, processes, caches and what is sent back.
WITHOUT_EFFECT_ON_VERDICTS = frozenset(
    ("database_path", "connection", "function", "num_instances", "slow_instances", "payload_rows", "payload_bytes")
    + ("answer_cache_bytes", "gold_cache_bytes", "worker_gold_cache_bytes")
)


# Strict: YAML's yes is true, which pydantic would take for 1.
Integer = Annotated[int, Strict()]
# What the system accepts: a frame's lengths (worker.py) and SQLite's limits have 32 bits.
Seconds = Annotated[float, Strict(), Field(gt=0, le=86_400)]
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
    """A file to which the log is appended, with a line for each request. At 100 MB it becomes log_file.1, and three old
    files are kept. Without one, warnings go to stderr."""
    max_body_bytes: Count = 10_000_000
    """A request with a larger body is rejected with 413."""
    max_reply_bytes: Count = 10_000_000
    """Rows and errors beyond this size are left out of a reply; outcomes and scores never are."""
    max_waiting: Count = 10_000
    """How many responses may wait for a worker. A request that would exceed it gets 503 with Retry-After."""
    request_seconds: Seconds = REQUEST_S
    """A request that takes longer gets 503; its work goes on, and asking again joins it. Clients should wait longer
    (reward_kwargs.timeout). A body that is not received within this time gets 408."""
    shutdown_seconds: Integer = Field(default=20, gt=0, le=86_400)
    """How long requests in progress may take after SIGTERM, SIGINT or PUT /shutdown."""
    shutdown_token: str | None = Field(default=None, min_length=1)
    """PUT /shutdown needs the header `Authorization: Bearer TOKEN`; without a token, it must come from the loopback."""


class ScorerSettings(_Section):
    """Settings of every kind of scorer."""

    num_instances: Processes | None = None
    """Worker processes; null: one per core."""
    slow_instances: Processes | None = None
    """Further workers, with a lower priority, for jobs that take much longer than others. null: four times
    num_instances."""
    grace_seconds: Seconds = 5.0
    """A worker that exceeds the time limit of its job by this is killed."""
    worker_memory_bytes: Integer = Field(default=512_000_000, ge=16_000_000, le=2**50)
    """Memory of a worker beyond what it has when it starts."""
    answer_cache_bytes: StoredBytes = 64_000_000
    """Capacity of the cache of scores; 0: no cache."""
    sandbox: Sandbox = "auto"
    """How the kernel confines workers (docs/reference/scorer.md). auto: by Landlock and seccomp as far as the kernel
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
    """sqlite or postgresql. A server may have a section for each."""
    prefix: str = ""
    """What the db_ids of this section begin with. The longest prefix that fits chooses the section, and the rest of the
    db_id names the database."""
    connection: str | None = Field(default=None, validate_default=True)
    """Only for postgresql: libpq's connection string, such as "host=/var/run/postgresql user=scorer"."""
    database_path: DirectoryPath | None = Field(default=None, validate_default=True)
    """The folder with the databases of sqlite; a db_id is a path below it."""
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
                    for path in _modules_of(scorer.path)
                }
                settings |= {"function": scorer.function_name, "text": text}
            judging.append((scorer.kind, settings))
        return hashlib.sha256(json.dumps(sorted(judging), sort_keys=True).encode()).hexdigest()

    @property
    def sql(self) -> list[SqlSettings]:
        return [scorer for scorer in self.Scorers.values() if isinstance(scorer, SqlSettings)]


def _modules_of(file: Path) -> list[Path]:
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
