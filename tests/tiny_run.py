"""What runs of the real trainer on a tiny model need: prompts, a D_pef store of the model's own, and their metrics."""

import json
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import AutoTokenizer, LlamaForCausalLM

from rl.common.fingerprint import model_hash, tokenizer_hash
from rl.demo.base_model import Shape, build_model
from rl.demo.tokenizer import build_tokenizer
from verl.dph.pef.store import Row, Store

TRUTH = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT name FROM item", "cmp_method": "bird"}

# Metrics that begin so are decided by the clock and the machine, and differ between two equal runs.
MEASURED = ("timing_s/", "timing_per_token_ms/", "perf/", "actor/perf/", "dph/scorer/")


def prompt_row(id: int, content: str, **more) -> dict:
    """A row of a parquet of prompts."""
    prompt, reward = [{"role": "user", "content": content}], {"style": "rule", "ground_truth": TRUTH}
    return {"data_source": "sql", "prompt": prompt, "reward_model": reward, "id": id} | more


def store_origin(model: Path | str) -> dict:
    hashes = {"model_hash": model_hash(str(model)), "tokenizer_hash": tokenizer_hash(str(model))}
    engine = {"engine_dtype": "float32", "chat_template": "{}"}
    return {"model": str(model), "temperature": 1.0} | engine | hashes


def prompt_tokens(model: Path | str, content: str) -> torch.Tensor:
    """The token ids of a prompt_row's prompt."""
    messages = prompt_row(0, content)["prompt"]
    ids = AutoTokenizer.from_pretrained(model).apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False
    )
    return torch.tensor(ids, dtype=torch.int32)


def eight_rows(model: Path | str) -> list[Row]:
    """D_pef rows of eight prompts, w0 to w7, with a response and log-probs that are made up."""
    prompts = [prompt_tokens(model, f"w{i}") for i in range(8)]
    return [Row(i, prompt, torch.tensor([5, 1]), torch.tensor([-1.0, -2.0])) for i, prompt in enumerate(prompts)]


def save_demo_model(folder: Path) -> None:
    """A random model of the demo's shape; its weights are large, so that it is far from uniform."""
    tokenizer = build_tokenizer()
    build_model(tokenizer, Shape(initializer_range=0.3), seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_store(path: Path, model: Path, responses: Iterable[tuple[int, str | torch.Tensor, torch.Tensor]]) -> None:
    """(id, prompt_row's content or the prompt's token ids, token ids of the response) with the model's own log-probs,
    so that every divergence is 0 at the start.
    """
    policy, rows = LlamaForCausalLM.from_pretrained(model, dtype=torch.float32).eval(), []
    for id, content, response in responses:
        prompt = prompt_tokens(model, content) if isinstance(content, str) else content
        with torch.no_grad():
            logits = policy(torch.cat([prompt, response])[None]).logits[0, len(prompt) - 1 : -1]
        rows.append(Row(id, prompt, response, logits.log_softmax(-1).gather(1, response[:, None])[:, 0]))
    Store(store_origin(model), rows).save(str(path))


def teach(model: LlamaForCausalLM, sequences: torch.Tensor, *, lr: float, steps: int) -> torch.Tensor:
    """Fine-tune the model on the last two tokens of each sequence: a response of one token and the end.

    Returns:
        The last step's logits of these tokens.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a tenth of the time on a machine that others use too
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(steps):
        logits = model(sequences).logits[:, -3:-1]
        loss = F.cross_entropy(logits.flatten(0, 1), sequences[:, -2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
    torch.set_num_threads(threads)
    return logits


def metrics_of(folder: Path) -> dict[int, dict[str, float]]:
    """Every metric of every step of a run, by step; a resumed run has several logs."""
    parts = sorted(folder.glob("*.jsonl"))
    entries = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    return {entry["step"]: entry["data"] for entry in entries}


def assert_same(metrics: dict[int, dict[str, float]], again: dict[int, dict[str, float]]) -> None:
    """Every metric of `metrics` is the same number in `again`, to the last bit."""
    for step, found in metrics.items():
        different = {
            name: (value, again[step][name])
            for name, value in found.items()
            if not name.startswith(MEASURED) and value != again[step][name]
        }
        assert not different, f"step {step}"


def prepare(config) -> None:
    """The checks of verl.dph.main before it starts Ray."""
    from verl.dph.checks.run import MAIN, check  # which loads all of verl

    check(config, MAIN)
