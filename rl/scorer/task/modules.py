"""The files of a task: the verdicts depend on their text."""

import ast
from pathlib import Path


def modules_of(file: Path) -> list[Path]:
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
