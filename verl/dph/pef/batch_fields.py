"""D_pef rows as fields of verl's batches: names and jagged columns."""

import torch

from verl.dph.pef.store import Row

# The trainer adds to every row of a mixed batch:
# per response token of a D_pef row, the reference log-prob (float32; D_exp rows have length 0 here);
# per row, the number of D_pef tokens in its optimizer mini-batch over all ranks.
PEF_REF_LOG_PROBS, PEF_NUM_TOKENS = "pef_ref_log_probs", "pef_num_tokens"

# With an anchor, also per row whether it is one of the anchor's (0 or 1), and the number of the anchor's tokens in its
# optimizer mini-batch over all ranks, which PEF_NUM_TOKENS does not count.
OF_ANCHOR, ANCHOR_NUM_TOKENS = "pef_of_anchor", "pef_anchor_num_tokens"


def token_fields(rows: list[Row]) -> dict[str, list[torch.Tensor]]:
    """verl's fields of token ids and positions, one tensor per row."""
    positions = torch.arange(max(len(row.prompt) + len(row.response) for row in rows))
    return {
        "input_ids": [torch.cat([row.prompt, row.response]) for row in rows],
        "position_ids": [positions[: len(row.prompt) + len(row.response)] for row in rows],
        "prompts": [row.prompt for row in rows],
        "responses": [row.response for row in rows],
    }


def jagged(parts: list[torch.Tensor], dtype: torch.dtype | None = None) -> torch.Tensor:
    """A jagged tensor with a row per part. They are converted together: single conversions fragment memory."""
    values = torch.cat(parts)
    offsets = torch.tensor([0, *(len(part) for part in parts)]).cumsum(0)
    return torch.nested.nested_tensor_from_jagged(values.to(dtype or values.dtype), offsets)
