"""A client that requests from vLLM only what is used: final outputs, and token ids without text.

verl's server lets vLLM build an output object with all log-probs so far after every token of every request, and a text
that nobody reads, in the process that also takes the requests.
"""

from typing import Any

from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput
from vllm.sampling_params import RequestOutputKind

FINAL_OUTPUTS = {"output_kind": RequestOutputKind.FINAL_ONLY, "detokenize": False}


class FinalOutputClient(LLMServerClient):
    """verl's LLMServerClient for servers whose requests are never aborted and resumed."""

    def __init__(self, client: LLMServerClient):
        super().__init__(client.config, client._load_balancer)

    async def generate(self, request_id: str, *, sampling_params: dict[str, Any], **arguments: Any) -> TokenOutput:
        """As LLMServerClient.generate."""
        return await super().generate(request_id, sampling_params=sampling_params | FINAL_OUTPUTS, **arguments)
