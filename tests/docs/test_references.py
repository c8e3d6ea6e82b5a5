"""Every file, module and link that a page, a docstring or a comment names exists."""

import ast
import importlib.util
import io
import os
import re
import tokenize
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ROOTS = (".ci", "benchmarks", "data", "docs", "packaging", "rl", "scripts", "tests", "verl")
TEXT = (".cff", ".md", ".py", ".sbatch", ".sh", ".toml", ".txt", ".yaml", ".yml")
# Written by a program of ours or by the reader, or part of BIRD's and Spider's evaluators and of vLLM.
OTHERS = {
    *("tables.md", "DIR/tables.md", "countdown/make_rows.py", "countdown/reward.py", "countdown/scorer.yaml"),
    *("FILE.py", "mine.sh", "evaluation.py", "exec_eval.py", "model_executor/layers/linear.py"),
}

PATH = re.compile(r"(?<![\w$}*<>/.-])(?:\.{1,2}/)*((?:[\w.-]+/)*[\w-]+\.(?:md|py|sh|ya?ml))\b(?!\w)(?!\.\w)(?![*/])")
FOLDER = re.compile(
    r"(?<![\w./-])((?:verl/dph|rl|tests|scripts|docs|benchmarks|packaging)(?:/[\w-]+)+)(?![\w.*<-]|/[\w<])"
)
MODULE = re.compile(r"(?<![\w./-])((?:rl|verl\.dph)(?:\.[a-z]\w*)+)\b(?![/*(=-])")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def files() -> list[Path]:
    """What the repository holds, but for what a build or a run leaves there."""
    found = [path for path in REPOSITORY.iterdir() if path.is_file() and path.name != ".git"]
    for root in ROOTS:
        for folder, folders, names in os.walk(REPOSITORY / root):
            folders[:] = [name for name in folders if name not in ("__pycache__", "outputs", "build")]
            found += [Path(folder, name) for name in names]
    return found


FILES = files()
TEXTS = [path for path in FILES if path.suffix in TEXT or path.name in ("Makefile", "run", ".pre-commit-config.yaml")]
UPSTREAM = Path(importlib.util.find_spec("verl").origin).parent  # found, not imported


def suffixes(paths, root: Path) -> set[str]:
    """Every way to name one of the paths by its last parts."""
    parts = [path.relative_to(root).parts for path in paths]
    return {"/".join(of[start:]) for of in parts for start in range(len(of))}


def upstream() -> set[str]:
    found = (Path(folder, name) for folder, _, names in os.walk(UPSTREAM) for name in names if name.endswith("py"))
    return suffixes(found, UPSTREAM.parent)


NAMES = suffixes(FILES, REPOSITORY) | upstream() | OTHERS


def prose(path: Path) -> str:
    """A page; the docstrings and comments of a program."""
    text = path.read_text()
    if path.suffix == ".md":
        return re.sub(r"https?://\S+", "", text)
    if path.suffix != ".py":
        return "\n".join(line for line in text.splitlines() if line.lstrip().startswith("#"))
    nodes = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    parts = [ast.get_docstring(node) or "" for node in nodes]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(parts + [token.string for token in tokens if token.type == tokenize.COMMENT])


PROSE = {path.relative_to(REPOSITORY).as_posix(): prose(path) for path in TEXTS}


def test_every_file_that_is_named_exists():
    named = {(page, name) for page, text in PROSE.items() for name in PATH.findall(text)}
    assert len(named) > 200
    missing = [f"{page}: {name}" for page, name in named if name not in NAMES]
    folders = {(page, name) for page, text in PROSE.items() for name in FOLDER.findall(text)}
    missing += [f"{page}: {name}" for page, name in folders if not (REPOSITORY / name).exists()]
    assert not missing, "\n".join(sorted(missing))


def test_every_page_that_a_message_names_exists():
    """In all of a program, not in its prose alone: errors send their reader to a page."""
    missing = []
    for path in TEXTS:
        text = path.read_text()
        named = re.findall(r"\bdocs/[\w/]+\.md", text)
        missing += [f"{path}: {name}" for name in named if not (REPOSITORY / name).is_file()]
    assert not missing, "\n".join(missing)


def test_every_module_that_is_named_exists():
    named = {(page, name) for page, text in PROSE.items() for name in MODULE.findall(text)}
    assert len(named) > 20
    missing = sorted(f"{page}: {name}" for page, name in named if not resolves(name))
    assert not missing, "\n".join(missing)


def resolves(name: str) -> bool:
    """Whether it is a package, a module, or something that a module defines."""
    path = REPOSITORY
    for part in name.split("."):
        if (path / part).is_dir():
            path = path / part
        elif (module := path / f"{part}.py").is_file():
            path = module
        else:
            file = path if path.is_file() else path / "__init__.py"
            return re.search(rf"\b{part}\b", file.read_text()) is not None
    return True


def test_every_link_of_a_page_leads_somewhere():
    broken = []
    for page in (path for path in TEXTS if path.suffix == ".md"):
        for link in LINK.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)):
            if link.startswith(("http://", "https://")):
                continue
            file, _, anchor = link.partition("#")
            target = page if not file else page.parent / file
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(REPOSITORY)}: {link}")
    assert not broken, "\n".join(broken)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
