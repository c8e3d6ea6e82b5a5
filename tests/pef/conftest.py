"""The run of tests/training that can start, and the prompts of tests/sampling."""

from tests.sampling.conftest import builder, model_folder, seeded_engine, tokenizer, train_parquet  # noqa: F401
from tests.training.conftest import random_model, run, run_that_can_start  # noqa: F401
