"""Plain English: reports what stops a reader, in every page, docstring, comment and message (`make lint`).

proselint (https://github.com/amperser/proselint) searches, with its checks that fit technical prose and with STYLE.

    .venv-lint/bin/python docs/site/english.py [FILE ...]     # without files: all of the repository
"""

import argparse
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# What stops a reader (a pattern of google-re2, in any case; a blank matches line ends too), and what to write instead.
STYLE = {
    r"likewise|the same holds": "say it of both, or 'also'",
    r"that of": "repeat the noun: 'lower than GRPO's'",
    r"of which|of whom": "two clauses",
    r"(is|are) none of|(that|which) (is|are) none": "'is not one of'",
    r"\S+ (is|are|was|were) no [a-z]+": "'is not a'",
    r"but for": "'except'",
    r"dear|a lottery": "'expensive', 'random'",
    r"let alone|so much as|no matter": "say what holds",
    r"lives? in|lived in": "'is in', 'runs in'",
    r"of (its|their) own (keeps?|has|have)": "name what keeps or has it",
    r"whence|whereby|wherein|thereof|thereby|herein|hereby|thus": "'so', 'because', 'by'",
    r"utili[sz]e[sd]?|leverag(e|es|ed|ing)|seamless(ly)?|robustly|state[- ]of[- ]the[- ]art": "say what it does",
    r"simply|obviously|of course|basically|note that|please note": "leave it out",
}
EXCEPTIONS = r"(?i)there \w+ no \w+|\S+ \w+ no (longer|more|less|lower|higher|worse|better|fewer)"
# proselint's groups; its typography and spelling do not fit formulas, file names and plain-text terminals.
PROSELINT = ["archaism", "cliches", "hedging", "misc", "mixed_metaphors", "nonwords", "oxymorons", "redundancy"]
PROSELINT += ["weasel_words", "industrial_language", "malapropisms", "mondegreens", "needless_variants"]

# The recorded tables, and the history.
SKIPPED = ("docs/study/", "CHANGELOG.md", "docs/site/english.py")


def blank(text: str) -> str:
    """`text` with every character but line ends replaced by a space, so that positions stay."""
    return re.sub(r"[^\n]", " ", text)


def markdown_prose(text: str) -> str:
    """A page without code, formulas, tags and link targets; a piece of code inside a sentence becomes a word of x."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", lambda found: blank(found[0]), text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]+`|\$[^$\n]+\$", lambda found: "x" * len(found[0]), text)
    return re.sub(r"\]\([^)]*\)|<[^>]+>", lambda found: blank(found[0]), text)


def python_prose(text: str) -> str:
    """Comments and strings of a module that have a blank: docstrings, messages and help texts.

    Raises: tokenize.TokenError, SyntaxError: the module cannot be parsed.
    """
    lines = text.split("\n")
    kept = [list(blank(line)) for line in lines]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT) and " " in token.string:
            (first, start), (last, end) = token.start, token.end
            for row in range(first, last + 1):
                piece = slice(start if row == first else 0, end if row == last else len(lines[row - 1]))
                kept[row - 1][piece] = lines[row - 1][piece]
    return re.sub(r"[\"#]|\\n", lambda found: " " * len(found[0]), markdown_prose("\n".join(map("".join, kept))))


def comment_prose(text: str) -> str:
    """Comments of a shell script or a YAML file."""
    return re.sub(r"^[^\n#]*#?|(?<=\n)#", lambda found: blank(found[0]), text, flags=re.MULTILINE)


PROSE = {".md": markdown_prose, ".py": python_prose} | dict.fromkeys([".sh", ".yaml", ".toml"], comment_prose)


def files(named: list[str]) -> Iterator[Path]:
    """The files to read: those that are named, else all of the repository that have prose."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    for name in named or listed:
        if Path(name).suffix in PROSE and not name.startswith(SKIPPED) and (ROOT / name).is_file():
            yield ROOT / name


def findings(path: Path) -> Iterator[str]:
    """A line `file:line: words: what to write` for each place of a file."""
    from proselint.tools import LintFile

    prose = PROSE[path.suffix](path.read_text(encoding="utf-8"))
    checks = {"misc.phrasal_adjectives": False} | dict.fromkeys(["ours", *PROSELINT], True)
    source = LintFile(path.name, prose)
    for result in source.lint({"max_errors": 10_000, "checks": checks}):
        start, end = result.check_result.span
        words = " ".join(source.content[start:end].split())
        if not re.fullmatch(EXCEPTIONS, words):
            yield f"{path.relative_to(ROOT)}:{result.pos[0]}: '{words}': {result.check_result.message}"


def register() -> None:
    """Give proselint its own checks and STYLE."""
    import proselint.checks
    from proselint.registry import CheckRegistry
    from proselint.registry.checks import Check, CheckFlags, Padding
    from proselint.registry.checks.types import Existence

    CheckRegistry().register_many(proselint.checks.__register__)
    for pattern, instead in STYLE.items():
        words = Existence((pattern.replace(" ", r"\s+"),), Padding.WORDS_IN_TEXT)
        CheckRegistry().register(
            Check(words, path="ours", message=f"write {instead}", flags=CheckFlags(allow_quotes=True))
        )


def main() -> int:
    """Print the findings; 1 if there is one."""
    parser = argparse.ArgumentParser(description="Report constructions that stop a reader, with what to write instead.")
    parser.add_argument("files", nargs="*", metavar="FILE", help="relative to the repository (default: all)")
    named = parser.parse_args().files
    if absent := [name for name in named if not (ROOT / name).is_file()]:
        parser.error(f"{absent[0]} is not a file of the repository: give its path below {ROOT}")
    register()
    found = [line for path in files(named) for line in findings(path)]
    print("\n".join(found) if found else "English: nothing found", file=sys.stderr if found else sys.stdout)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
