"""Options of the scorer server, in a module of their own so that --help does not load FastAPI."""

import argparse
import textwrap
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    from rl.scorer.server import main

    return main(arguments)


def parser() -> argparse.ArgumentParser:
    from rl.scorer.config import CLASS_NAMES
    from rl.scorer.sql.engines import ENGINES

    databases = {name: f"a db_id names {engine.databases}" for name, engine in ENGINES.items()}
    parser = argparse.ArgumentParser(
        prog="scorer_server_without_ray.py",
        description="Serve scores of SQL, math or a task of your own over HTTP (docs/reference/scorer.md).",
        epilog=f"{_listed('class_name', CLASS_NAMES)}\n\n{_listed('engine', databases)}\n\n"
        "All settings: docs/reference/settings.md.",
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
    parser.add_argument("--address-file", type=Path, help="file that gets host:port once the server listens")
    return parser


def _listed(key: str, meanings: dict[str, str]) -> str:
    """The values of a key of a scorer's section, each with its meaning."""
    lines = (
        textwrap.fill(f"{name}: {text}", 100, initial_indent="  ", subsequent_indent="    ")
        for name, text in meanings.items()
    )
    return "\n".join([f"{key} in a section of Scorers:", *lines])
