"""Write the task of the demo with a pretrained model: four sets of word problems, all from one seed.

    python -m rl.demo.math_task --out outputs/smollm2/task

It writes train.parquet, test_in_domain.parquet, test_out_of_domain.parquet and sft.parquet (with a column "solutions"
for the three styles) in the rows that `dph prepare` writes for math. No problem occurs twice, neither within a file nor
across files.
"""

from pathlib import Path

from rl.data.prepare.prompt_template import math_prompt
from rl.demo.task_files import TaskSettings, draw_files, run, write_files
from rl.demo.word_problems import IN_DOMAIN, OUT_OF_DOMAIN, RL_MIX, SFT_MIX, Problem, draw_problem, solutions

SETTINGS = TaskSettings(train=96, eval=24, sft=512)


def make_task(folder: Path, settings: TaskSettings) -> None:
    """Write the task into `folder`; sft.parquet comes last.

    Raises:
        UserError: a size is below 1, or larger than the templates allow.
    """
    files = draw_files(settings, IN_DOMAIN, OUT_OF_DOMAIN, RL_MIX, SFT_MIX, draw_problem)
    write_files(folder, files, _row, solutions)


def _row(problem: Problem) -> dict:
    return {
        "data_source": "math",
        "prompt": [{"role": "user", "content": math_prompt(problem.text)}],
        "reward_model": {"style": "rule", "ground_truth": str(problem.answer)},
        "extra_info": {"family": problem.family, "ambiguous": problem.ambiguous},
    }


def main() -> None:
    run("rl.demo.math_task", "Write the word problems of the demo with a pretrained model.", SETTINGS, make_task)


if __name__ == "__main__":
    main()
