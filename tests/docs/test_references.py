"""Every file, module and link that a page, a docstring or a comment names exists."""

import ast
import importlib.util
import io
import os
import re
import tokenize
from functools import cache
from pathlib import Path

from tests.programs import REPOSITORY

FOLDERS = (".ci", "benchmarks", "data", "docker", "docs", "packaging", "rl", "scripts", "tests", "verl")
SUFFIXES = (".cff", ".md", ".py", ".sbatch", ".sh", ".toml", ".txt", ".yaml", ".yml")
# Written by a program of ours or by the reader, or part of BIRD's and Spider's evaluators and of vLLM.
OTHERS = {
    *("tables.md", "DIR/tables.md", "OUT/matrix.md", "seeds.md"),
    *("countdown/make_rows.py", "countdown/reward.py", "countdown/scorer.yaml"),
    "mine/make_example.py",
    *(".gpu/on_device.sh", "mine/experiment/mine.yaml"),
    *("mine/experiment/my_sql.yaml", "evaluation.py", "exec_eval.py", "model_executor/layers/linear.py"),
}

PLACEHOLDER = re.compile(r"(.*/)?[A-Z]+\.(py|sh|ya?ml)")  # as FILE.py
PATH = re.compile(r"(?<![\w$}*<>/.-])(?:\.{1,2}/)*((?:[\w.-]+/)*[\w-]+\.(?:md|py|sh|ya?ml))\b(?!\w)(?!\.\w)(?![*/])")
FOLDER = re.compile(
    r"(?<![\w./-])((?:verl/dph|rl|tests|scripts|docs|benchmarks|packaging)(?:/[\w-]+)+)(?![\w.*<-]|/[\w<])"
)
PAGE = re.compile(r"\b(?:docs/[\w/]+|[A-Z]{4,})\.md")
MODULE = re.compile(r"(?<![\w./-])((?:rl|verl\.dph)(?:\.[a-z]\w*)+)\b(?![/*(=-])")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def walk(folder: Path) -> list[Path]:
    return [
        Path(found, name)
        for found, _, names in os.walk(folder)
        for name in names
        if not {"__pycache__", "outputs"} & set(Path(found).parts[len(folder.parts) :])
    ]


@cache
def files() -> list[Path]:
    """The repository, without what a build or a run leaves there."""
    top = [path for path in REPOSITORY.iterdir() if path.is_file() and path.name != ".git"]
    return top + [path for folder in FOLDERS for path in walk(REPOSITORY / folder)]


@cache
def texts() -> dict[str, str]:
    """Pages, programs and settings by their path."""
    named = [path for path in files() if path.suffix in SUFFIXES or path.name in ("Makefile", "run")]
    return {path.relative_to(REPOSITORY).as_posix(): path.read_text() for path in named}


@cache
def prose(path: str, text: str) -> str:
    """A page; the docstrings and comments of a program."""
    if path.endswith(".md"):
        return re.sub(r"https?://\S+", "", text)
    if not path.endswith(".py"):
        return "\n".join(line for line in text.splitlines() if line.lstrip().startswith("#"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join([*(ast.get_docstring(node) or "" for node in nodes), *comments])


@cache
def named(pattern: re.Pattern) -> set[tuple[str, str]]:
    """(where, what) of all matches in prose."""
    return {(path, name) for path, text in texts().items() for name in pattern.findall(prose(path, text))}


@cache
def known() -> set[str]:
    """Every way to name a file of ours or of verl's (found, not imported) by the last parts of its path."""
    upstream = Path(importlib.util.find_spec("verl").origin).parent
    paths = [path.relative_to(REPOSITORY).parts for path in files()]
    paths += [path.relative_to(upstream.parent).parts for path in walk(upstream) if path.suffix == ".py"]
    return OTHERS | {"/".join(parts[start:]) for parts in paths for start in range(len(parts))}


def resolves(module: str) -> bool:
    """Whether it is a package, a module, or a name in one of them."""
    path = REPOSITORY
    for part in module.split("."):
        if (path / part).is_dir():
            path = path / part
        elif (path / f"{part}.py").is_file():
            path = path / f"{part}.py"
        else:
            file = path if path.is_file() else path / "__init__.py"
            return file.is_file() and re.search(rf"\b{part}\b", file.read_text()) is not None
    return True


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_files_that_are_named_exist():
    assert len(named(PATH)) > 200 and len(named(FOLDER)) > 20
    missing = {(path, name) for path, name in named(PATH) if name not in known() and not PLACEHOLDER.fullmatch(name)}
    missing |= {(path, name) for path, name in named(FOLDER) if not (REPOSITORY / name).exists()}
    # A message sends its reader to a page too.
    pages = {(path, name) for path, text in texts().items() for name in PAGE.findall(text)}
    missing |= {(path, name) for path, name in pages if not (REPOSITORY / name).is_file()}
    assert not missing, "\n".join(sorted(map(": ".join, missing)))


def test_modules_that_are_named_exist():
    assert len(named(MODULE)) > 20
    missing = sorted(f"{path}: {name}" for path, name in named(MODULE) if not resolves(name))
    assert not missing, "\n".join(missing)


def test_links_lead_somewhere():
    broken = []
    for page in (path for path in files() if path.suffix == ".md"):
        for link in LINK.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)):
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            leads = target.exists() and (not anchor or anchor in anchors(target))
            if not leads and not link.startswith("https://"):
                broken.append(f"{page.relative_to(REPOSITORY)}: {link}")
    assert not broken, "\n".join(broken)
