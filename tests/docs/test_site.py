"""The documentation's site: its pages, and what is generated into them."""

import re

import pytest

from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import settings_of
from rl.configuration.training import DIVERGENCES
from rl.scorer.config import MathSettings, ServerSettings, SqlSettings, TaskSettings
from tests.docs.conftest import DOCS, site_module


def test_every_setting_and_script_variable_is_in_the_reference():
    made = site_module("reference")
    text = "\n".join(map(made.settings, PROGRAMS))
    found = re.findall(r"^#### (\S+)\n\n`(\S+\.\1)=", text, re.MULTILINE)
    ours = [setting.key for sections in PROGRAMS.values() for setting in settings_of(sections)]
    assert set(ours) == {key for _, key in found}
    for section in (ServerSettings, SqlSettings, MathSettings, TaskSettings):
        assert [name for name in section.model_fields if f"| `{name}` |" not in made.scorer_settings()] == []
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
