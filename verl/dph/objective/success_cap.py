"""The success cap: a group of rollouts whose share of correct responses reaches the cap teaches nothing.

The split of the paper decides once which prompts are mastered. `algorithm.success_cap` decides it again in every step,
for the step's own groups: their advantages become 0 after the estimator has computed them, so that the cap works with
every estimator over groups, every policy loss and every divergence. The tokens of a capped group still count in the
loss's normaliser, as in a group whose responses are all correct.
"""

from collections.abc import Mapping

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from rl.common.errors import UserError

# m / n is compared with a cap such as 0.6, which has no exact binary form.
TOLERANCE = 1e-9


def groups_of(accuracies: Mapping[str, float | None], setting: str) -> dict[str, dict[str, bool]]:
    """Whether each judged sample is correct, by prompt.

    Args:
        accuracies: `acc` of the scorer by sample, "<prompt>_<sample>"; a sample is correct if it is 1. Samples that
            failed or could not be judged are left out.
        setting: what asks, for the message.

    Raises:
        UserError: a response has no `acc`.
    """
    groups: dict[str, dict[str, bool]] = {}
    for sample, accuracy in accuracies.items():
        if accuracy is None:
            raise UserError(
                f"{setting} counts the responses that are correct, but the reward function returned no `acc`: return a "
                "dict with score and acc (1 or 0), or remove the setting."
            )
        groups.setdefault(sample.split("_")[0], {})[sample] = accuracy == 1
    return groups


def capped(accuracies: Mapping[str, float | None], cap: float) -> tuple[set[str], int]:
    """The prompts whose group is capped, and the number of groups.

    Args:
        accuracies: see `groups_of`; a group with failed rollouts has fewer.
        cap: a group with m correct responses of n is capped if m / n is at least this.

    Raises:
        UserError: a response has no `acc`.
    """
    groups = groups_of(accuracies, f"algorithm.success_cap={cap}")
    found = {prompt for prompt, verdicts in groups.items() if sum(verdicts.values()) >= cap * len(verdicts) - TOLERANCE}
    return found, len(groups)


def apply(batch: KVBatchMeta, prompts: set[str]) -> None:
    """Set the advantages of these prompts' rows to 0 in TransferQueue.

    Args:
        batch: a step's rows, keys "<prompt>_<sample>_<output>", with the field `advantages`, nested (B, tokens).
    """
    keys = [key for key in batch.keys if key.split("_")[0] in prompts]
    if keys:
        data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["advantages"])
        zeros = TensorDict({"advantages": torch.zeros_like(data["advantages"])}, batch_size=len(keys))
        tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=zeros)


def share_that_teaches(batch: KVBatchMeta) -> float:
    """The share of the response tokens whose advantage is not 0; 0 without a token."""
    fields = ["advantages", "response_mask"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
    # Both have a row's response positions; the mask is 0 where tokens do not count, such as in padding rows.
    advantages, mask = (torch.cat(list(data[field].unbind())) for field in fields)
    counts = mask.bool()
    return float((advantages[counts] != 0).float().mean()) if counts.any() else 0.0
