"""vLLM alone on one GPU: tokens per second, sleep, and its log-probs beside those of the training engine.

    python check_vllm.py REPORT.json [--small]

It answers 64 questions 8 times with SmolLM2-135M-Instruct, twice, as the first time compiles kernels. verl's training
worker then computes the log-probs of the same tokens. --small has sizes for a CPU, where transformers samples.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from rl.demo.pretrained import smollm2

PROMPTS, SAMPLES, TOKENS = 64, 8, 64
SMALL_PROMPTS, SMALL_SAMPLES, SMALL_TOKENS = 2, 2, 8
# In bf16 a token's probability changes in the third digit. With other weights the correlation is far lower.
LEAST_CORRELATION = 0.99
MICRO_BATCH_TOKENS = 4096
# Prompt, response, and the log-probs of the response's tokens.
Row = tuple[list[int], list[int], list[float]]


def with_vllm(model: str, prompts: list[list[int]], report: dict[str, Any]) -> list[Row]:
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt

    started = time.perf_counter()
    llm = LLM(model, dtype="bfloat16", max_model_len=512, gpu_memory_utilization=0.4, enable_sleep_mode=True, seed=1)
    report["seconds"] = {"start": time.perf_counter() - started}
    asked = [TokensPrompt(prompt_token_ids=prompt) for prompt in prompts]
    sampled = SamplingParams(n=SAMPLES, temperature=1.0, max_tokens=TOKENS, logprobs=0, seed=1)
    for turn in ("first", "second"):
        started = time.perf_counter()
        found = llm.generate(asked, sampled, use_tqdm=False)
        report["seconds"][turn] = time.perf_counter() - started
    rows = [
        (prompt, [*of.token_ids], [step[token].logprob for token, step in zip(of.token_ids, of.logprobs, strict=True)])
        for prompt, answers in zip(prompts, found, strict=True)
        for of in answers.outputs
    ]
    report["tokens_per_second"] = sum(len(row[1]) for row in rows) / report["seconds"]["second"]
    greedy = SamplingParams(temperature=0.0, max_tokens=TOKENS)
    before = llm.generate(asked, greedy, use_tqdm=False)
    memory = {"awake": _used()}
    llm.sleep(level=1)
    memory["asleep"] = _used()
    llm.wake_up()
    memory["woken"] = _used()
    after = llm.generate(asked, greedy, use_tqdm=False)
    same = [a.outputs[0].token_ids == b.outputs[0].token_ids for a, b in zip(before, after, strict=True)]
    report |= {"gpu_bytes_used": memory, "same_answers_after_sleep": sum(same) / len(same)}
    return rows


def _used() -> int:
    """Bytes of the GPU that all processes use, as nvidia-smi says it."""
    free, total = torch.cuda.mem_get_info()
    return total - free


def with_transformers(model: str, prompts: list[list[int]]) -> list[Row]:
    from transformers import AutoModelForCausalLM

    policy, rows = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), list[Row]()
    sampled = {"do_sample": True, "top_k": 0, "max_new_tokens": SMALL_TOKENS, "num_return_sequences": SMALL_SAMPLES}
    for prompt in prompts:
        asked = torch.tensor([prompt])
        ids = policy.generate(asked, attention_mask=torch.ones_like(asked), **sampled)
        log_probs = policy(ids[:, :-1]).logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        of_responses = zip(ids[:, len(prompt) :].tolist(), log_probs[:, len(prompt) - 1 :].tolist(), strict=True)
        rows += [(prompt, response, values) for response, values in of_responses]
    return rows


def by_training_engine(model: str, rows: list[Row]) -> list[list[float]]:
    """The log-probs of the rows' responses by verl's training worker, as in a run."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from cost import DEVICE
    from standalone_worker import actor_worker, batch_of, be_the_only_rank, worker_config
    from verl.utils import tensordict_utils as tu
    from verl.workers.utils.padding import response_from_nested

    from verl.dph.config import attention

    be_the_only_rank()
    config = worker_config(model, DEVICE, MICRO_BATCH_TOKENS)
    attention.complete(config)
    batch = []
    for prompt, response, _ in rows:
        ids, mask = torch.tensor(prompt + response), torch.ones(len(response), dtype=torch.int64)
        parts = {"input_ids": ids, "prompts": ids[: len(prompt)], "responses": ids[len(prompt) :]}
        batch.append(parts | {"position_ids": torch.arange(len(ids)), "response_mask": mask, "loss_mask": mask})
    data = batch_of(batch)
    tu.assign_non_tensor(data, temperature=1.0, calculate_entropy=False, compute_loss=False)
    found = actor_worker(config).infer_batch(data)["log_probs"]
    return [part.tolist() for part in response_from_nested(found, batch_of(batch)["response_mask"]).unbind()]


def compared(rows: list[Row], computed: list[list[float]]) -> dict[str, float]:
    """How much the engines' log-probs of the same tokens differ, in nats, and the correlation of the probabilities."""
    sampled = torch.tensor([value for row in rows for value in row[2]], dtype=torch.float64)
    trained = torch.tensor([value for values in computed for value in values], dtype=torch.float64)
    apart = sampled - trained
    return {
        "tokens": len(apart),
        "mean_difference": float(apart.mean()),
        "mean_absolute_difference": float(apart.abs().mean()),
        "largest_difference": float(apart.abs().max()),
        "correlation": float(torch.corrcoef(torch.stack([sampled.exp(), trained.exp()]))[0, 1]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    options = parser.parse_args()
    # Before transformers is imported, which looks for gguf then.
    model = smollm2()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": f"Ann has {number} apples and buys {2 * number + 1} more. How many has she?"}],
            add_generation_prompt=True,
            return_dict=False,
        )
        for number in range(1, 1 + (SMALL_PROMPTS if options.small else PROMPTS))
    ]
    report: dict[str, Any] = {"model": "SmolLM2-135M-Instruct", "torch": torch.__version__}
    rows = with_transformers(model, prompts) if options.small else with_vllm(model, prompts, report)
    options.report.write_text(json.dumps(report, indent=1) + "\n")
    report["log_probs"] = compared(rows, by_training_engine(model, rows))
    options.report.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    return report["log_probs"]["correlation"] < LEAST_CORRELATION


if __name__ == "__main__":
    sys.exit(main())
