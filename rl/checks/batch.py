"""A training batch against the prompts that there are: for the scripts' dry run and for training."""

from rl.common.errors import UserError


def check_batch(batch: int, prompts: int) -> None:
    """Reject a training batch that the prompts do not fill: verl drops the partial one, so an epoch would have no step.

    Raises:
        UserError: naming both numbers.
    """
    if prompts < batch:
        raise UserError(
            f"data.train_batch_size={batch} is more than the {prompts} prompts of data.train_files, and a step needs a "
            "whole batch: lower it (TRAIN_BATCH_SIZE in the scripts, a multiple of MINI_BATCH_SIZE), or give more "
            "prompts."
        )
