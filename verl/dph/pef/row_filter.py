"""The rows of the D_pef store that a run can rehearse: whole responses within the run's limits."""

from collections import Counter

from omegaconf import DictConfig

from rl.common.errors import UserError
from verl.dph.pef.store import Row, Store
from verl.dph.sampling.job import stop_ids, tokenizer_of


def usable(store: Store, config: DictConfig, name: str = "sft") -> tuple[Store, str]:
    """Leave out rows over the length limits and responses that were cut off before the model's end token.

    A truncated response would be rehearsed as if the initial policy continued after it.

    Args:
        store: all rows, in the file's order, which stays.
        config: verl's trainer settings; read are data.{max_prompt_length,max_response_length}, actor_rollout_ref.model
            and the two of `name`.
        name: of the settings data.<name>_pt and data.<name>_batch_size: sft or sft_anchor.

    Returns:
        The rows that are rehearsed, and in words how many were left out for which reason, each under its first.

    Raises:
        UserError: fewer rows are left than one training step takes.
    """
    data, model = config.data, config.actor_rollout_ref.model
    ends = stop_ids(model, tokenizer_of(model))
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for row in store.rows:
        if len(row.prompt) > data.max_prompt_length:
            left_out[f"with a prompt over data.max_prompt_length={data.max_prompt_length}"] += 1
        elif len(row.response) > data.max_response_length:
            left_out[f"with a response over data.max_response_length={data.max_response_length}"] += 1
        elif int(row.response[-1]) not in ends:
            left_out["with a response that was cut off"] += 1
        else:
            rows.append(row)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    found = f"{len(rows):,} of {len(store):,} rows (left out: {reasons})" if left_out else f"{len(rows):,} rows"
    path, size = data[f"{name}_pt"], data[f"{name}_batch_size"] or data.sft_batch_size
    if len(rows) < size:
        of_them = f", and this run can rehearse {found}" if left_out else ""
        raise UserError(
            f"D_pef store {path} holds {len(store):,} rows{of_them}, but data.{name}_batch_size={size} are used in "
            f"every training step: lower {name}_batch_size, raise the limits, or make more near-perfect prompts with a "
            "lower threshold (an anchor: sample more prompts)."
        )
    return Store(store.meta, rows), found
