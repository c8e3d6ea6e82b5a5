"""Split the SQL training prompts into near-perfect ones (train_correct.parquet) and the rest (train_wrong.parquet).

    python ./data/sql/process_data/exact_correct_id.py
    python ./data/sql/process_data/exact_correct_id.py --experiment omnisql_sql

The first reads the samples of scripts/llama/offline_sampling.sh. `dph split` is the same program.
"""

from rl.data.split_command import main

if __name__ == "__main__":
    main()
