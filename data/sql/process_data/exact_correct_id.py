"""Split the SQL training parquet into near-perfect prompts (train_correct.parquet) and the rest (train_wrong.parquet).

    python ./data/sql/process_data/exact_correct_id.py
    python ./data/sql/process_data/exact_correct_id.py --family qwen --samples ... --out data/sql/omnisql-32b

The first reads the samples of scripts/llama/offline_sampling.sh; rl/data/split.py does the work.
"""

from rl.data.split_command import Task, run

TASK = Task(
    data="data/sql/bird_train.parquet",
    folder="data/sql/llama3.1-8b",
    keep_zero=True,
    paper_sizes={"Llama-SQL": (6710, 2248), "OmniSQL-32B": (5169, 3789)},
)

if __name__ == "__main__":
    run(TASK, __doc__)
