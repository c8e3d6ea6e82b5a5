"""The scorer server's command line, also of python -m rl.scorer. --help loads no server."""

import argparse
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    from rl.scorer.server import run

    return run(options)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scorer_server_without_ray.py",
        description="Serve scores of SQL, math or a task of your own over HTTP (docs/reference/scorer.md). "
        "docs/reference/settings.md has all settings of the YAML file.",
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
