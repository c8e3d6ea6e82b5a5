"""The noise floor of a report's figures."""

from rl.evaluation.analysis.comparison import compare
from rl.evaluation.report.figures import Figures
from rl.evaluation.spec import read_spec


def test_the_noise_floor_is_the_second_draw_or_the_later_samples(math_run):
    def drawn(spec):
        [group] = [group for group in Figures(compare(spec)).all({}, {}) if group.title.startswith("Retained")]
        return group.panels[0].drawing

    assert "Base, second draw" in drawn(read_spec(math_run.write()))
    del math_run.content["methods"]["base_again"]
    assert "Base, later samples" in drawn(read_spec(math_run.write()))
    math_run.content["solved_in"] = 16  # no later samples are left
    found = drawn(read_spec(math_run.write()))
    assert "Base" not in found and "GRPO" in found
