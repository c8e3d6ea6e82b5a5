"""OpenRLHF's own SingleTurnAgentExecutor, with POST /v1/openrlhf as its remote reward model.

openrlhf.utils.agent needs aiohttp alone, but openrlhf.utils imports deepspeed. It is imported without this __init__.
"""

import asyncio
import importlib
import json
import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

from tests.trainers.conftest import NAMES, SQL

PROMPT = "<|im_start|>user\nWhich names?\n```sql\n-- Your SQL query\n```<|im_end|>\n"


class Characters:
    """A tokenizer whose tokens are characters; the last one is <|im_end|>."""

    END = 0x110000

    def __call__(self, text: str, **_) -> dict:
        return {"input_ids": [SimpleNamespace(tolist=lambda: [ord(character) for character in text])]}

    def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
        assert not skip_special_tokens
        return "".join("<|im_end|>" if token == self.END else chr(token) for token in tokens)


@pytest.fixture(scope="module")
def agent() -> ModuleType:
    """openrlhf.utils.agent."""
    utils = ModuleType("openrlhf.utils")
    utils.__path__ = [f"{folder}/utils" for folder in find_spec("openrlhf").submodule_search_locations]
    sys.modules["openrlhf.utils"] = utils
    return importlib.import_module("openrlhf.utils.agent")


def sample(agent: ModuleType, url: str, response: str, label: str) -> dict:
    """What OpenRLHF makes of one response of its engine."""
    tokens = [ord(character) for character in response] + [Characters.END]

    async def generate(*_, **__):
        return SimpleNamespace(outputs=[SimpleNamespace(token_ids=tokens, finish_reason="stop", logprobs=None)])

    params = SimpleNamespace(max_tokens=200, logprobs=None)
    executor = agent.SingleTurnAgentExecutor([url])
    return asyncio.run(
        executor.execute(PROMPT, label, params, 10_000, Characters(), SimpleNamespace(generate=generate))
    )


def test_openrlhf_gets_its_rewards(scorer: str, agent: ModuleType) -> None:
    for response, label, reward in [
        (f"```sql\n{NAMES} ORDER BY 1\n```", json.dumps(SQL), 1.0),
        ("```sql\nSELECT 1\n```", json.dumps(SQL), 0.0),
        ("Answer: 0.5", "1/2", 1.0),
    ]:
        output = sample(agent, f"{scorer}/v1/openrlhf", response, label)
        assert (output["reward"], output["scores"]) == ([reward], [reward])
        assert output["extra_logs"] == {"acc": [reward], "gold_error": [0.0]}


def test_a_failure_is_not_a_reward(scorer: str, agent: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": lambda _: asyncio.sleep(0)}))
    for url, label in [(f"{scorer}/v1/openrlhf", ""), ("http://127.0.0.1:9/v1/openrlhf", "4")]:
        output = sample(agent, url, "4", label)
        assert output["reward"] is None and output["scores"] is None
