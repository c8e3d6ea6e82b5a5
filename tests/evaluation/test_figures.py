"""The noise floor in the figure of transitions."""

from rl.evaluation.analysis.comparison import compare
from rl.evaluation.report.figures import Figures
from rl.evaluation.report.write import write_report
from rl.evaluation.spec import read_spec


def test_the_noise_floor_is_the_second_draw_or_the_later_samples(math_run, tmp_path):
    def rows(spec):
        [group] = [group for group in Figures(compare(spec)).of_evaluation({}) if group.title.startswith("Retained")]
        return [part.split(":")[0] for part in group.panels[0].description.split("; ")]

    assert rows(read_spec(math_run.write())) == ["Base, second draw", "GRPO", "DPH-JS", "eta 0"]
    for name in ("base_again", "dph_js", "dph_js_low"):
        del math_run.content["methods"][name]
    assert rows(read_spec(math_run.write())) == ["Base", "GRPO"]
    math_run.content["solved_in"] = 16  # no later samples are left
    write_report(read_spec(math_run.write()), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "There is no noise floor" in page and "The first row is" not in page
