"""Write the task of the demo with a pretrained model: four sets of word problems, all from one seed.

    python -m rl.demo.math_task --out outputs/smollm2/task

It writes train.parquet, test_in_domain.parquet, test_out_of_domain.parquet and sft.parquet (with a column "solutions"
for the three styles) in the rows that `dph prepare` writes for math. No problem occurs twice, neither within a file nor
across files.
"""

from functools import partial
from pathlib import Path

from rl.data.prepare.prompt_template import math_prompt
from rl.demo.task_files import FIRST_IDS, TaskSettings, draw_distinct, run, write_rows
from rl.demo.word_problems import IN_DOMAIN, OUT_OF_DOMAIN, RL_MIX, SFT_MIX, Problem, draw_problem, solutions

SETTINGS = TaskSettings(train=96, eval=24, sft=512)


def make_task(folder: Path, settings: TaskSettings) -> None:
    """Write the task into `folder`; sft.parquet comes last.

    Raises:
        UserError: a size is below 1, or larger than the templates allow.
    """
    texts: set[str] = set()
    for name, size, scenes, mix in (
        ("test_in_domain", settings.in_domain, IN_DOMAIN, RL_MIX),
        ("test_out_of_domain", settings.eval, OUT_OF_DOMAIN, RL_MIX),
        ("train", settings.train, IN_DOMAIN, RL_MIX),
        ("sft", settings.sft, IN_DOMAIN + OUT_OF_DOMAIN, SFT_MIX),
    ):
        problems = draw_distinct(name, size, settings.seed, partial(draw_problem, scenes=scenes, mix=mix), texts)
        texts.update(problem.text for problem in problems)
        rows = [_row(problem, name, index) for index, problem in enumerate(problems)]
        if name == "sft":
            rows = [row | {"solutions": solutions(problem)} for row, problem in zip(rows, problems, strict=True)]
        write_rows(folder, name, rows)


def _row(problem: Problem, split: str, index: int) -> dict:
    return {
        "data_source": "math",
        "prompt": [{"role": "user", "content": math_prompt(problem.text)}],
        "reward_model": {"style": "rule", "ground_truth": str(problem.answer)},
        "id": FIRST_IDS[split] + index,
        "extra_info": {
            "index": index,
            "split": split,
            "family": problem.family,
            "ambiguous": problem.ambiguous,
        },
    }


def main() -> None:
    run("rl.demo.math_task", "Write the word problems of the demo with a pretrained model.", SETTINGS, make_task)


if __name__ == "__main__":
    main()
