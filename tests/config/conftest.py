"""The run of tests/training that can start."""

from tests.training.conftest import random_model, run, run_that_can_start  # noqa: F401
