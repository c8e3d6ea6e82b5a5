"""The documentation's site: its pages, what is generated into them, and, where `make docs` was run, the site itself."""

import ast
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rl import cli
from rl.configuration.divergences import DIVERGENCES
from rl.configuration.programs import PROGRAMS
from rl.scorer.config import MathSettings, ServerSettings, SqlSettings, TaskSettings
from tests.docs.conftest import DOCS, site_module
from tests.programs import REPOSITORY

PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "study" not in path.parts]
ZENSICAL = REPOSITORY / ".venv-docs" / "bin" / "zensical"
LONGEST_PARAGRAPH = 5 * 120  # characters: five lines of a page
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and list items, without code, tables and headings."""
    for block in re.split(r"\n\s*\n", CODE.sub("", text)):
        for paragraph in re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", block.strip("\n")):
            if not paragraph.startswith(("|", "#", "    ")):
                yield " ".join(paragraph.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_paragraphs_are_short_and_lists_and_tables_stand_apart(page):
    """Markdown takes a list or a table that follows a line of text for more text."""
    long = [text[:80] for text in _paragraphs(page.read_text()) if len(text) > LONGEST_PARAGRAPH]
    assert not long, "\n".join(long)
    lines = CODE.sub("", page.read_text()).splitlines()
    glued = [
        line
        for before, line in zip(lines, lines[1:], strict=False)
        if re.match(r"([-*]|\d+\.) |\|", line) and before and not re.match(r"#| {2}| *([-*]|\d+\.) |\|", before)
    ]
    assert not glued


def test_the_navigation_has_every_page():
    def pages(entries: list) -> Iterator[str]:
        for entry in entries:
            for value in entry.values():
                yield from [value] if isinstance(value, str) else pages(value)

    project = tomllib.loads((REPOSITORY / "zensical.toml").read_text())["project"]
    listed = list(pages(project["nav"]))
    assert sorted(listed) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_every_command_and_option_is_in_the_reference():
    text = site_module("reference").commands()
    for name in cli.COMMANDS:
        section = text.partition(f"## dph {name}\n")[2].partition("\n## ")[0]
        options = [word for action in cli.parser_of(name)._actions if action.help for word in action.option_strings]
        assert section and f"dph {name}" in section
        assert not [word for word in options if word not in ("-h", "--help") and word not in section]


def test_every_setting_and_script_variable_is_in_the_reference():
    made = site_module("reference")
    text = "\n".join(map(made.settings, PROGRAMS))
    found = re.findall(r"^#### (\S+)\n\n`(\S+\.\1)=", text, re.MULTILINE)
    ours = [setting.key for program in PROGRAMS.values() for setting in program.changed()]
    assert set(ours) == {key for _, key in found}
    setting = (
        "#### sft_loss_mode\n\n`actor_rollout_ref.actor.sft_loss_mode=none`\n\nDivergence to the initial policy: none"
    )
    assert text.startswith("### actor_rollout_ref.actor ") and f"\n\n{setting}" in text
    for section in (ServerSettings, SqlSettings, MathSettings, TaskSettings):
        assert [name for name in section.model_fields if f"| `{name}` |" not in made.scorer_settings()] == []
    assert "| `gold_seconds` | `60.0` | Time limit of a gold query" in made.scorer_settings()
    assert "| `SqlRewardModel` | 0 |" in made.reward_models() and "| `sqlite` | a file |" in made.engines()
    assert "| a row 1, 1, 1, Ada | a constant, `SELECT 1` | 0.20 | 0.80 | 0.00 |" in made.guesses()
    assert "${oc.env:MODEL_PATH," in made.environment_variables()


def test_the_methods_page_has_every_divergence():
    """The table's first column has the modes, each with the settings that only it reads."""
    table = (DOCS / "explanation/method.md").read_text().partition("| `sft_loss_mode` |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", line.split(" | ")[0]) for line in table.splitlines()[2:]]
    assert rows == [[mode, *of.reads] for mode, of in DIVERGENCES.items()]


def test_the_papers_tables_have_each_row_with_its_command():
    tables = {number: site_module("reference").paper_table(number) for number in "124"}
    assert "| GRPO | `bash scripts/llama/grpo.sh grpo` | 58.5 | 66.2 | 67.7 | " in tables["1"]
    assert "| α-Divergence, α = 0.8 | `bash scripts/llama/alpha.sh alpha_08 0.01 0.8` | " in tables["1"]
    assert "η = 0.05 | `bash scripts/llama/js_definition.sh dph_js_def_005 0.05` | " in tables["1"]
    assert "| `bash scripts/llama/forward_kl.sh dph_f 0.01 experiment=omnisql_sql` | 70.4 | " in tables["2"]
    assert "| `bash scripts/qwen/js_kl.sh dph_js 0.2` | 66.7 | 53.3 | 100.0 | " in tables["4"]
    assert [table.count("\n") for table in tables.values()] == [15, 6, 12]


def test_the_figures_are_computed():
    """By hand: p has mean -.65 and variance 6.9625; its largest mode is at -3 with deviation .6."""
    figures = site_module("figures")
    found = figures.closest_normals()
    assert found["forward"] == pytest.approx((-0.65, 6.9625**0.5), abs=1e-3)
    assert found["reverse"] == pytest.approx((-3, 0.6), abs=0.06)
    assert figures.two_divergences().startswith("<svg") and "#000000" not in figures.pulls()


# Of CUDA, the compiler and verl.
OTHERS_SAY = {
    "The NVIDIA driver on your system is too old",
    "Python.h: No such file or directory",
    "Failed to find C compiler",
    "Bus error",
    "training/rollout_probs_diff_mean",
}


def test_errors_that_are_explained_exist():
    """A heading of the troubleshooting page has the words of a message; ... stands for what varies."""
    said = []
    for path in [*(REPOSITORY / "rl").rglob("*.py"), *(REPOSITORY / "verl").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                said.append("".join(value.value if isinstance(value, ast.Constant) else "..." for value in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                said.append(node.value)
    said += [path.read_text() for path in (REPOSITORY / "scripts" / "lib").glob("*.sh")]
    headings = re.findall(r"^### (.*)$", (DOCS / "howto" / "troubleshooting.md").read_text(), re.MULTILINE)
    messages = [message for heading in headings for message in re.findall(r"`([^`]+)`", heading)]
    assert len(messages) > 15
    for message in set(messages) - OTHERS_SAY:
        parts = [part.strip() for part in message.split("...")]
        assert any(all(part in text for part in parts) for text in said), message


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built from a copy of docs/."""
    if not ZENSICAL.exists():
        pytest.skip("make docs makes .venv-docs")
    folder = tmp_path_factory.mktemp("docs")
    for name in ("rl", "verl", "scripts"):
        (folder / name).symlink_to(REPOSITORY / name)
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(REPOSITORY / "zensical.toml", folder)
    environment = os.environ | {"PYTHONPATH": f"docs/site{os.pathsep}."}
    command = [ZENSICAL, "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return folder / "site"


def test_the_site_is_complete_and_loads_nothing_from_elsewhere(site):
    html = {path: path.read_text() for path in site.rglob("*.html")}
    assert len(html) > len(PAGES)
    loaded = re.compile(
        r'<(script|img|iframe|source)[^>]* src="(https?:)?//|<link[^>]*stylesheet"[^>]* href="(https?:)?//'
    )
    assert not [path for path, text in html.items() if loaded.search(text)]
    method = html[site / "explanation" / "method.html"]
    assert method.count("<math") > 20 and "<svg" in method and "generate:" not in method
