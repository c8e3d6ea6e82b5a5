"""A tiny model whose tokens are whole answers, so that even random weights give right, partly right and wrong ones."""

import asyncio
import random

import pytest
from tokenizers import Regex, pre_tokenizers
from transformers import AutoTokenizer
from verl.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder
from verl.workers.rollout.replica import TokenOutput

from rl.data.rows import PromptFiles
from rl.data.sample_file import SampleRecord, SampleWriter, read_samples
from rl.scorer.client.scorer_client import ScorerClient
from tests.sample_files import metadata, write_parquet
from tests.tiny_run import prompt_row
from verl.dph.sampling.sampler import SamplingSettings, sample

ANSWERS = (
    "```sql\nSELECT name FROM item\n```",
    "```sql\nSELECT name, price FROM item\n```",
    "```sql\nSELECT id FROM item\n```",
    "```sql\nSELECT name FROM item WHERE price > 2\n```",
    "```sql\nSELECT nothing FROM item\n```",
    "nothing",
)
WORDS = ("which", "names", "prices", "are", "there")
END = "<eos>"
CHAT_TEMPLATE = "<user>{{ messages[0]['content'] }}{% if add_generation_prompt %}<answer>{% endif %}"


@pytest.fixture(scope="session")
def model_folder(word_llama, tmp_path_factory):
    folder = tmp_path_factory.mktemp("answer_model")
    words = ["<pad>", END, "<unk>", "<user>", "<answer>", *WORDS, *ANSWERS]
    shape = {"intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1, "initializer_range": 0.02}
    word_llama(folder, words, template=CHAT_TEMPLATE, joined=True, max_position_embeddings=64, **shape)
    # Whole answers are tokens in texts too.
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pieces = Regex(r"```sql[\s\S]*?```|\S+")
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(pieces, "removed", invert=True)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(model_folder):
    return AutoTokenizer.from_pretrained(model_folder)


@pytest.fixture(scope="session")
def builder(tokenizer):
    return create_continuous_token_builder(tokenizer, hf_model_type="llama")


def shop_row(id: int, /, **changes) -> dict:
    """A row in the paper's format, asking for the names of the shop's items in one of five wordings."""
    words = [WORDS[(id + shift) % len(WORDS)] for shift in range(3)]
    return prompt_row(id, " ".join(words), extra_info={"index": id, "split": "train"}) | changes


@pytest.fixture(scope="session")
def train_parquet(tmp_path_factory):
    """Six prompts with ids 10, 11, ... 15."""
    path = tmp_path_factory.mktemp("data") / "train.parquet"
    return write_parquet(path, *(shop_row(10 + i) for i in range(6)))


class SeededEngine:
    """One random answer token, then an end token (or, for one seed in five, three answers and none)."""

    def __init__(self, delay_s: float = 0.0):
        self.delay_s = delay_s
        self.requests = []  # (request id, prompt ids, sampling params)
        self.answered = []  # seeds
        self.in_flight = self.most_in_flight = 0

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        self.requests.append((request_id, prompt_ids, dict(sampling_params)))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.delay_s)
        self.in_flight -= 1
        self.answered.append(sampling_params["seed"])
        draw = random.Random(sampling_params["seed"])
        answer = draw.randrange(len(ANSWERS)) + 10  # the ids before are those of special tokens and words
        token_ids = [answer] * 3 if draw.random() < 0.2 else [answer, 1]
        log_probs = [-0.123457 * (1 + place) for place in range(len(token_ids))]
        return TokenOutput(token_ids=token_ids, log_probs=log_probs, stop_reason="completed")


@pytest.fixture(scope="session")
def seeded_engine():
    return SeededEngine


@pytest.fixture(scope="session")
def sampling_settings():
    return SamplingSettings(n=4, temperature=1.0, top_p=0.95, top_k=-1, max_response_length=3, seed=7, log_probs=True)


@pytest.fixture
def prompts(train_parquet, builder):
    return list(PromptFiles([train_parquet], builder, max_prompt_length=16))


@pytest.fixture
def run(prompts, tokenizer, scorer_server, sampling_settings):
    """Samples into a file, with the given engine."""

    def run(path, engine, settings=sampling_settings, scorer=scorer_server, max_in_flight=8):
        described = metadata(n=settings.n, max_response_length=3, rows=len(prompts))

        async def scenario():
            async with ScorerClient(scorer, retries=1, first_backoff_s=0.01) as client:
                with SampleWriter(path, described) as writer:
                    return await sample(
                        engine,
                        tokenizer,
                        prompts,
                        settings=settings,
                        stop_ids=frozenset({tokenizer.eos_token_id}),
                        scorer=client,
                        writer=writer,
                        max_in_flight=max_in_flight,
                    )

        return asyncio.run(scenario())

    return run


def sorted_records(path) -> list[SampleRecord]:
    """The records of a samples file by prompt and number."""
    return sorted(read_samples(path), key=lambda record: (record.id, record.sample))
