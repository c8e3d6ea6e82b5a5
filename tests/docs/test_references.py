"""Every file and link that a page names exists."""

import re
from pathlib import Path

from tests.programs import REPOSITORY

# Written by a program of ours or by the reader, or part of BIRD's and Spider's evaluators.
OTHERS = {
    *("tables.md", "DIR/tables.md", "OUT/matrix.md", "seeds.md"),
    *("countdown/make_rows.py", "countdown/reward.py", "countdown/scorer.yaml"),
    "mine/make_example.py",
    *(".gpu/on_device.sh", "mine/experiment/mine.yaml"),
    *("mine/experiment/my_sql.yaml", "evaluation.py", "exec_eval.py"),
}
FOLDERS = (".ci", "benchmarks", "data", "docker", "docs", "packaging", "rl", "scripts", "tests", "verl")
PLACEHOLDER = re.compile(r"(.*/)?[A-Z]+\.(py|sh|ya?ml)")  # as FILE.py
PATH = re.compile(r"(?<![\w$}*<>/.-])(?:\.{1,2}/)*((?:[\w.-]+/)*[\w-]+\.(?:md|py|sh|ya?ml))\b(?!\w)(?!\.\w)(?![*/])")
LINK = re.compile(r"\]\(([^)\s]+)\)")


# The repository, without what a build or a run leaves there.
FILES = [path for path in REPOSITORY.iterdir() if path.is_file()]
FILES += [path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.*") if "__pycache__" not in path.parts]
PAGES = [path for path in FILES if path.suffix == ".md"]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_files_that_are_named_exist():
    paths = [path.relative_to(REPOSITORY).parts for path in FILES]
    known = OTHERS | {"/".join(parts[start:]) for parts in paths for start in range(len(parts))}
    texts = {page: re.sub(r"https?://\S+", "", page.read_text()) for page in PAGES}
    named = {(page, name) for page, text in texts.items() for name in PATH.findall(text)}
    assert len(named) > 100
    missing = [found for found in named if found[1] not in known and not PLACEHOLDER.fullmatch(found[1])]
    assert not missing, "\n".join(sorted(f"{page}: {name}" for page, name in missing))


def test_links_lead_somewhere():
    broken = []
    for page in PAGES:
        for link in LINK.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)):
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            leads = target.exists() and (not anchor or anchor in anchors(target))
            if not leads and not link.startswith("https://"):
                broken.append(f"{page.relative_to(REPOSITORY)}: {link}")
    assert not broken, "\n".join(broken)
