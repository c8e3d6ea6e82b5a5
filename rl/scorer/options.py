"""The scorer server's command line: dph scorer, python -m rl.scorer and scorer_server_without_ray.py. --help loads no
server.
"""

import argparse
import textwrap
from pathlib import Path

from rl.scorer.rewards import REWARD_MODELS
from rl.scorer.sql.engines import ENGINES


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    from rl.scorer.server import run

    return run(options)


def parser() -> argparse.ArgumentParser:
    of_models = {
        name: f"SQL: a result that differs from gold's gets {model.scores}" if model.credit else model.scores
        for name, model in REWARD_MODELS.items()
    }
    of_engines = {name: f"a db_id names {engine.databases}" for name, engine in ENGINES.items()}
    parser = argparse.ArgumentParser(
        prog="scorer_server_without_ray.py",
        description="Serve scores of SQL, math or a task of your own over HTTP (docs/reference/scorer.md).\n\n"
        "docs/reference/settings.md has all settings of the YAML file. In a section of its Scorers,\n\n"
        f"{_listed('class_name', of_models)}\n\n{_listed('engine', of_engines)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Path(__file__).resolve().with_name("sql.yaml")
    parser.add_argument(
        "-c", "--config", type=Path, default=default, help="YAML settings (default: rl/scorer/sql.yaml)"
    )
    parser.add_argument("--address", help="where to listen, instead of ScorerServer.address")
    parser.add_argument("--port", type=int, help="instead of ScorerServer.port; 0 picks a free one")
    parser.add_argument("--workers", type=int, metavar="N", help="processes, instead of num_instances of every scorer")
    parser.add_argument("--database-path", type=Path, help="instead of the database_path of the scorer for SQL")
    parser.add_argument("--address-file", type=Path, help="file to write host:port to once the server listens")
    return parser


def _listed(key: str, meanings: dict[str, str]) -> str:
    """The values of a key, each with its meaning."""
    lines = textwrap.TextWrapper(width=100, initial_indent="  ", subsequent_indent="    ")
    return "\n".join([f"  {key} is one of", *(lines.fill(f"{name}: {text}") for name, text in meanings.items())])
