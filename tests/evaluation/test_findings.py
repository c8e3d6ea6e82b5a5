"""Which methods the top of a report is about."""

import pytest

from rl.evaluation.analysis.findings import leading_methods
from rl.evaluation.spec import read_spec


@pytest.mark.parametrize(
    ("order", "leading"),
    [(["dapo", "grpo", "dph_js"], ["grpo", "dph_js"]), (["grpo_cap", "dapo", "dph_js"], ["grpo_cap", "dph_js"])],
)
def test_grpo_leads_wherever_it_stands(made_up_report, tmp_path, order, leading):
    made = made_up_report(tmp_path, prompts=2)
    for name in ("base", *order):
        made.method(name)
    assert leading_methods(read_spec(made.write())) == leading
