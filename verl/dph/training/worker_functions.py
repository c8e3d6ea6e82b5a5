"""Functions of verl that the workers of our programs replace in their own processes, and no other program's."""

import verl.utils.model
from verl.workers.engine.fsdp import transformer_impl

from verl.dph.config.attention import use_configured_attention
from verl.dph.divergence.topk_logprobs import log_probs_of


def replace_functions() -> None:
    """Let this process's FSDP engines take log-probs in one pass, and its critics the attention that is configured."""
    if transformer_impl.logprobs_from_logits is not log_probs_of:
        transformer_impl.logprobs_from_logits = log_probs_of
        use_configured_attention(verl.utils.model)
