"""Split the math training parquet into near-perfect prompts (train_correct.parquet) and the rest (train_wrong.parquet).

    python ./data/math/process_data/exact_correct_id.py
    python ./data/math/process_data/exact_correct_id.py --family qwen --samples ... --out data/math/qwen2.5-math-7b

Prompts without a correct sample are left out, as in the paper's math recipe; rl/data/split.py does the work.
"""

from rl.data.split_command import Task, run

TASK = Task(
    data="data/math/dapo_train.parquet",
    folder="data/math/llama3.1-8b",
    keep_zero=False,
    paper_sizes={"Llama-Math": (4599, 1248), "Qwen2.5-Math": (7009, 3199)},
)

if __name__ == "__main__":
    run(TASK, __doc__)
