"""Options of the scorer server, apart from the server so that --help does not load FastAPI."""

import argparse
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    from rl.scorer.server import main

    return main(arguments)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scorer_server_without_ray.py",
        description="Serve scores of SQL, math or a task of your own over HTTP (docs/reference/scorer.md).",
    )
    default = Path(__file__).resolve().with_name("sql.yaml")
    parser.add_argument(
        "-c", "--config", type=Path, default=default, help="YAML settings (default: rl/scorer/sql.yaml)"
    )
    parser.add_argument("--address", help="where to listen, in place of ScorerServer.address")
    parser.add_argument("--port", type=int, help="in place of ScorerServer.port; 0 picks a free one")
    parser.add_argument("--workers", type=int, metavar="N", help="processes, in place of num_instances of every scorer")
    parser.add_argument("--database-path", type=Path, help="in place of Scorers.Scorer1.database_path")
    parser.add_argument("--address-file", type=Path, help="written with host:port once the server listens")
    return parser
