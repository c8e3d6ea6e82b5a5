"""The pre-sampler's overhead over the bare engine, and its memory.

    python benchmarks/sampler.py speed [--prompts 32] [--turns 8] [--response 256]
    python benchmarks/sampler.py memory [--samples 100000]

speed (in the environment of `make test-vllm`): tokens/s of vLLM's offline LLM.generate, and of the pre-sampler with
verl's vLLM server, log-probs and scores from the real scorer server. Both take turns on the same cores, with the same
prompts, sampling parameters, seeds and engine settings. Engine start-up does not count. The model is random, and large
enough that an engine step takes tens of milliseconds. CPU seconds include all processes of a side, with Ray and the
scorer. When both cores are busy, CPU seconds decide the time, and other work on the machine does not change them.

memory: resident memory of the sampling process after 1,000, 10,000, ... samples, and its CPU time per sample. The
engine is scripted (it returns random token ids at once); prompts, records, pending responses and scorer are real.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SEED, N = 1, 8
TOP_P = 0.95
MAX_PROMPT = 64
# The engine's settings, in both variants.
MAX_NUM_SEQS, MAX_BATCHED_TOKENS = 64, 2048
KV_CACHE_BYTES = 1 << 30
# 25 million parameters.
SHAPE = {
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
}
VARIABLES = {
    "VERL_PLATFORM": "cpu",
    "OMP_NUM_THREADS": str(os.cpu_count()),
    "OMP_WAIT_POLICY": "PASSIVE",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "WARNING",
    # Ray's default niceness is 15. Beside other work on the machine, the two engines would then have unequal shares.
    "RAY_worker_niceness": "0",
}


def make_inputs(folder: Path, prompts: int, response: int) -> None:
    """Write folder/task, with its databases and train.parquet, and folder/model."""
    from rl.demo.base_model import Shape, build_model
    from rl.demo.task import TaskSettings, make_task
    from rl.demo.tokenizer import build_tokenizer

    make_task(folder / "task", TaskSettings(train=prompts, eval=1, sft=1))
    tokenizer = build_tokenizer()
    shape = Shape(**SHAPE, max_position_embeddings=MAX_PROMPT + response)
    build_model(tokenizer, shape, seed=0).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")


def bare(options: argparse.Namespace) -> None:
    """Run vLLM alone, with all requests of a turn at once."""
    from transformers import AutoTokenizer
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder
    from vllm import LLM, SamplingParams

    from rl.data.rows import PromptFiles
    from verl.dph.sampling.sampler import sample_seed

    folder, response = options.folder, options.response
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    builder = create_continuous_token_builder(tokenizer, hf_model_type="llama")
    prompts = list(PromptFiles([folder / "task" / "train.parquet"], builder, MAX_PROMPT))
    engine = LLM(
        str(folder / "model"),
        dtype="float32",
        enforce_eager=True,
        max_model_len=MAX_PROMPT + response,
        max_num_seqs=MAX_NUM_SEQS,
        max_num_batched_tokens=MAX_BATCHED_TOKENS,
        enable_prefix_caching=True,
        enable_chunked_prefill=True,
        logprobs_mode="processed_logprobs",
        kv_cache_memory_bytes=KV_CACHE_BYTES,
    )
    shared = {"temperature": 1.0, "top_p": TOP_P, "max_tokens": response, "logprobs": 0, "detokenize": False}
    for turn in _turns():
        pairs = [(prompt, number) for prompt in prompts for number in range(N)]
        requests = [{"prompt_token_ids": prompt.token_ids.tolist()} for prompt, _ in pairs]
        seeds = [sample_seed(SEED + turn, prompt.id, number) for prompt, number in pairs]
        params = [SamplingParams(seed=seed, **shared) for seed in seeds]
        started = time.monotonic()
        outputs = engine.generate(requests, params, use_tqdm=False)
        seconds = time.monotonic() - started
        _report(len(outputs), sum(len(output.outputs[0].token_ids) for output in outputs), seconds)


def ours(options: argparse.Namespace) -> None:
    """Run the pre-sampler on verl's server; every turn writes a new file."""
    from rl.configuration.compose import compose
    from verl.dph.sampling.job import draw, prepare
    from verl.dph.sampling.rollout_engine import rollout_client
    from verl.dph.sampling.sampler import SamplingSettings

    folder, response, rollout = options.folder, options.response, "actor_rollout_ref.rollout"
    settings = {
        "device": "cpu_vllm",
        "actor_rollout_ref.model.path": folder / "model",
        "data.max_prompt_length": MAX_PROMPT,
        "data.max_response_length": response,
        f"{rollout}.max_model_len": MAX_PROMPT + response,
        f"{rollout}.max_num_seqs": MAX_NUM_SEQS,
        f"{rollout}.max_num_batched_tokens": MAX_BATCHED_TOKENS,
        f"{rollout}.engine_kwargs.vllm.kv_cache_memory_bytes": KV_CACHE_BYTES,
        "presample.output": "-",
        "reward.custom_reward_function.reward_kwargs.scorer": options.scorer,
    }
    config = compose("presample", [f"{key}={value}" for key, value in settings.items()])

    async def run() -> None:
        async with rollout_client(config) as client:
            for turn in _turns():
                job = prepare(
                    config,
                    files=[folder / "task" / "train.parquet"],
                    settings=SamplingSettings(N, 1.0, TOP_P, -1, response, SEED + turn, log_probs=True),
                    output=folder / f"{turn}.jsonl",
                )
                drawn = await draw(job, lambda: contextlib.nullcontext(client))
                _report(drawn.samples, drawn.tokens, drawn.seconds)

    asyncio.run(run())


def _turns() -> Iterator[int]:
    """Yield the numbers that the parent process sends, one per line."""
    for line in sys.stdin:
        yield int(line)


def _report(samples: int, tokens: int, seconds: float) -> None:
    sys.stdout.write(json.dumps({"samples": samples, "tokens": tokens, "seconds": seconds}) + "\n")
    sys.stdout.flush()


class Variant:
    """A process with a running engine, which is idle between turns."""

    def __init__(self, name: str, arguments: list[str], log: Path):
        self.name, self.log = name, log
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), *arguments],
                env=os.environ | VARIABLES,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def turn(self, number: int, helper: int) -> tuple[float, float]:
        """Tokens/s, and tokens per CPU second of all processes, including the process `helper`."""
        before = _cpu_seconds(self.process.pid) + _cpu_seconds(helper)
        print(number, file=self.process.stdin, flush=True)
        for line in self.process.stdout or ():
            if line.startswith('{"samples"'):  # vLLM and verl print lines too
                found = json.loads(line)
                break
        else:
            sys.exit(f"{self.name} failed:\n{self.log.read_text()[-3000:]}")
        cpu = _cpu_seconds(self.process.pid) + _cpu_seconds(helper) - before
        rate = found["tokens"] / found["seconds"]
        sys.stdout.write(
            f"{self.name}  {found['samples']} samples, {found['tokens']} tokens in {found['seconds']:.1f} s: "
            f"{rate:.0f} tokens/s, {cpu:.1f} s of CPU\n"
        )
        return rate, found["tokens"] / cpu


def _cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and its descendants."""
    from rl.common.processes import process_tree

    times = (member.cpu_times() for member in process_tree(pid))
    return sum(spent.user + spent.system for spent in times)


def speed(options: argparse.Namespace) -> None:
    import psutil

    from rl.cluster.scorer import temporary_scorer
    from rl.common.processes import end_process_tree
    from rl.demo.experiment import scorer_config

    ratios = []  # of tokens/s, and of tokens per CPU second
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(folder, options.prompts, options.response)
        with temporary_scorer(scorer_config(), folder / "task" / "databases", folder / "scorer.log") as scorer:
            (server,) = psutil.Process().children()
            arguments = ["--folder", name, "--response", str(options.response), "--scorer", scorer]
            variants = [Variant(name, [name, *arguments], folder / f"{name}.log") for name in ("bare", "ours")]
            try:
                for turn in range(options.turns + 1):  # the first turn warms up
                    order = variants[:: 1 if turn % 2 else -1]
                    rates = {variant.name: variant.turn(turn, server.pid) for variant in order}
                    ratio = [ours / bare for ours, bare in zip(rates["ours"], rates["bare"], strict=True)]
                    load = os.getloadavg()[0]
                    sys.stdout.write(f"ratio {ratio[0]:.3f}, by CPU {ratio[1]:.3f}, load of the machine {load:.1f}\n")
                    sys.stdout.flush()
                    if turn:
                        ratios.append(ratio)
            finally:
                for variant in variants:
                    end_process_tree(variant.process)
    for what, of_turns in zip(("tokens/s", "tokens a second of CPU"), zip(*ratios, strict=True), strict=True):
        middle, spread = statistics.median(of_turns), f"{min(of_turns):.3f} to {max(of_turns):.3f}"
        sys.stdout.write(f"ratio of {what}, {len(of_turns)} turns: median {middle:.3f}, {spread}\n")


class ScriptedEngine:
    """Answers at once with random token ids, and records the memory of this process."""

    def __init__(self, vocabulary: int, tokens: int, marks: list[int]):
        import psutil

        self.generator, self.vocabulary, self.tokens, self.marks = random.Random(SEED), vocabulary, tokens, marks
        self.process, self.answered = psutil.Process(), 0
        self.found: dict[int, int] = {}

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        from verl.workers.rollout.replica import TokenOutput

        self.answered += 1
        if self.answered in self.marks:
            self.found[self.answered] = self.process.memory_info().rss
        await asyncio.sleep(0)
        token_ids = self.generator.choices(range(self.vocabulary), k=self.tokens)
        return TokenOutput(token_ids=token_ids, log_probs=[-1.234567] * self.tokens, stop_reason="completed")


def memory(options: argparse.Namespace) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

    from rl.cluster.scorer import temporary_scorer
    from rl.data.rows import PromptFiles
    from rl.data.sample_file import SampleMetadata, SampleWriter
    from rl.demo.experiment import scorer_config
    from rl.demo.task import TaskSettings, make_task
    from rl.demo.tokenizer import build_tokenizer
    from rl.scorer.client.scorer_client import ScorerClient
    from verl.dph.sampling.sampler import SamplingSettings, sample

    tokenizer = build_tokenizer()
    builder = create_continuous_token_builder(tokenizer, hf_model_type="llama")
    marks = [10**power for power in range(3, 9) if 10**power <= options.samples]
    settings = SamplingSettings(N, 1.0, TOP_P, -1, options.response, SEED, log_probs=True)

    async def run(prompts: PromptFiles, folder: Path, scorer: str) -> None:
        metadata = SampleMetadata(
            *("m", "m", "t", 1.0, TOP_P, -1, N, SEED, options.response, {}, len(prompts), []),
            *("{}", "scripted", "c"),
        )
        engine = ScriptedEngine(len(tokenizer), options.response, marks)
        async with ScorerClient(scorer) as client:
            with SampleWriter(folder / "0.jsonl", metadata) as writer:
                started = time.process_time()
                drawn = await sample(
                    engine,
                    tokenizer,
                    prompts,
                    settings=settings,
                    stop_ids=frozenset({tokenizer.eos_token_id}),
                    scorer=client,
                    writer=writer,
                    max_in_flight=options.in_flight,
                )
                seconds = time.process_time() - started
        for mark, resident in engine.found.items():
            sys.stdout.write(f"{mark:>9} samples  {resident / 2**20:.1f} MiB\n")
        growth = engine.found[marks[-1]] - engine.found[marks[0]]
        sys.stdout.write(
            f"growth {growth / 2**20:.1f} MiB; scripted engine, {options.response} tokens per response, "
            f"{options.in_flight} requests at a time\n"
            f"{drawn}; {1000 * seconds / drawn.samples:.2f} ms of CPU a sample\n"
        )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_task(folder / "task", TaskSettings(train=64, eval=1, sft=1))
        rows = pq.read_table(folder / "task" / "train.parquet").to_pylist()
        with pq.ParquetWriter(folder / "many.parquet", pa.Table.from_pylist(rows).schema) as writer:
            for start in range(0, -(-options.samples // N), len(rows)):
                many = [row | {"id": start + place} for place, row in enumerate(rows)]
                writer.write_table(pa.Table.from_pylist(many, schema=writer.schema))
        prompts = PromptFiles([folder / "many.parquet"], builder, 128)
        with temporary_scorer(scorer_config(), folder / "task" / "databases", folder / "scorer.log") as scorer:
            asyncio.run(run(prompts, folder, scorer))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    fast = commands.add_parser("speed", help="against vLLM's offline engine; in the environment of make test-vllm")
    fast.add_argument("--prompts", type=int, default=32, help="prompts of a turn, 8 samples each (default: 32)")
    fast.add_argument("--turns", type=int, default=8, help="turns, after one to warm up (default: 8)")
    fast.add_argument("--response", type=int, default=256, help="most tokens of a response (default: 256)")
    for name in ("bare", "ours"):
        variant = commands.add_parser(name, help="one side of speed, which starts it")
        variant.add_argument("--folder", type=Path, required=True)
        variant.add_argument("--response", type=int, required=True)
        variant.add_argument("--scorer", required=True)
    flat = commands.add_parser("memory", help="memory of the sampling process, with a scripted engine")
    flat.add_argument("--samples", type=int, default=100_000)
    flat.add_argument("--response", type=int, default=128, help="tokens of every response (default: 128)")
    flat.add_argument("--in-flight", type=int, default=256, help="requests at a time (default: 256)")
    options = parser.parse_args()
    {"speed": speed, "bare": bare, "ours": ours, "memory": memory}[options.command](options)


if __name__ == "__main__":
    main()
