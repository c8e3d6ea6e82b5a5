"""Split the math training prompts into near-perfect ones (train_correct.parquet) and the rest (train_wrong.parquet).

    python ./data/math/process_data/exact_correct_id.py
    python ./data/math/process_data/exact_correct_id.py --experiment llama_math

The default is the experiment of scripts/qwen. Prompts without a correct sample are left out, as in the paper's math
recipe. `dph split` is the same program.
"""

from rl.configuration.methods import FOLDERS
from rl.data.split_command import main

if __name__ == "__main__":
    main(default=FOLDERS["qwen"])
