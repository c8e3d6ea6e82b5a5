"""Fixtures that several suites share: a tiny model, a small SQLite database and the real scorer server on it."""

import contextlib
import json
import logging
import resource
import signal
import socket
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch
import yaml
from xdist.scheduler import LoadScopeScheduling

from rl.cluster.scorer import temporary_scorer

# A shell ignores SIGINT in what it starts with `&`; programs that a test interrupts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Time decides no test.
hypothesis.settings.register_profile("dph", deadline=None)
hypothesis.settings.load_profile("dph")

# Folders whose tests share expensive runs, the longest first.
SHARED_RUNS = ("gpu", "end_to_end", "resume", "trainer_modes", "cluster")


def shared_by(path: str) -> str:
    """What a test file shares its expensive fixtures with: its folder, or nothing but its own tests."""
    folder = path.split("/")[1]
    return folder if folder in SHARED_RUNS else path


class WholeFolders(LoadScopeScheduling):
    """pytest-xdist keeps a folder of shared runs on one worker, and every other file.

    The groups of `--dist loadgroup` do not hold with pytest 9.2 and pytest-xdist 3.8.
    """

    def _split_scope(self, nodeid: str) -> str:
        return shared_by(nodeid.split("::")[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log) -> WholeFolders:
    config.option.loadscopereorder = False  # the order of pytest_collection_modifyitems
    return WholeFolders(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(SHARED_RUNS)}
    items.sort(key=lambda item: rank.get(shared_by(item.nodeid.split("::")[0]), len(rank)))


@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request) -> str:
    """Where a test computes: on the CPU, and on a GPU where there is one (`make test-gpu`)."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return request.param


@pytest.fixture(autouse=True)
def no_log_handlers_left():
    """Programs that run within a test, Hydra's and the scorer's, let the root logger write to the test's own output."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def shop_databases(tmp_path_factory) -> Path:
    """A database folder with shop/shop.sqlite: item(id, name, price, kind), six rows, one NULL kind."""
    folder = tmp_path_factory.mktemp("databases")
    (folder / "shop").mkdir()
    with sqlite3.connect(folder / "shop" / "shop.sqlite") as database:
        database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, kind TEXT)")
        rows = [
            (1, "apple", 1.5, "fruit"),
            (2, "pear", 2.0, "fruit"),
            (3, "plum", 3.0, "fruit"),
            (4, "bread", 4.0, "bakery"),
            (5, "cake", 9.0, "bakery"),
            (6, "bag", 1.5, None),
        ]
        database.executemany("INSERT INTO item VALUES (?, ?, ?, ?)", rows)
    database.close()
    return folder


def write_word_llama(folder: Path, words: list[str], *, template: str, joined: bool = False, **config):
    """A Hugging Face folder with a random Llama that reads and writes whole words; the same weights every time.

    Args:
        words: the vocabulary, "<pad>" first; "<eos>", "<unk>" and others in <> are special.
        template: of the chat.
        joined: decode without spaces between words.
        config: of LlamaConfig, instead of 2 layers and hidden size 32.

    Returns:
        The model, float32.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if joined:
        tokenizer.decoder = decoders.WordPiece(cleanup=False)
    named = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    others = [word for word in words if word.startswith("<") and word not in named.values()]
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, additional_special_tokens=others, chat_template=template, **named
    ).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    ends = {"pad_token_id": 0, "eos_token_id": words.index("<eos>"), "bos_token_id": None}
    model = LlamaForCausalLM(LlamaConfig(**({"vocab_size": len(words)} | shape | ends | config)))
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="session")
def word_llama():
    return write_word_llama


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def serving_sql(databases: Path, folder: Path, **scorers: dict) -> Iterator[str]:
    """The address of a real scorer server in a process of its own.

    Args:
        folder: for its settings and logs.
        scorers: sections of Scorers beside Scorer1, which scores SQL.
    """
    sql = {"class_name": "SqlDetailRewardModel", "database_path": str(databases), "num_instances": 1}
    settings = {"ScorerServer": {"log_file": str(folder / "requests.log")}, "Scorers": {"Scorer1": sql} | scorers}
    (folder / "sql.yaml").write_text(yaml.safe_dump(settings))
    with temporary_scorer(folder / "sql.yaml", None, folder / "scorer.log") as address:
        yield address


@pytest.fixture(scope="session")
def scorer_server(shop_databases, tmp_path_factory):
    """Address of a running scorer server on shop_databases."""
    with serving_sql(shop_databases, tmp_path_factory.mktemp("scorer")) as address:
        yield address


# Of made-up samples, before the data files of their questions are written.
UNKNOWN = {"test.parquet": "hash"}


def write_samples(
    path: Path, correct: np.ndarray, pred, *, model: str = "model", seed: int = 0, data_source: str = "sql", **metadata
) -> None:
    """A samples file as the sampler writes it, of answers that are made up.

    Args:
        correct: [P, n] bool.
        pred: called with a prompt's and a sample's number; gives the answer.
        metadata: further fields of SampleMetadata that are to differ.
    """
    # Here, because it loads all of verl, which most suites do without.
    from rl.data.sample_file import SampleWriter
    from tests import sample_files

    path.unlink(missing_ok=True)
    prompts, n = correct.shape
    settings = {"max_response_length": 64} | metadata
    named = {"model": model, "model_hash": model, "n": n, "seed": seed, "data_files": UNKNOWN, "rows": prompts}
    described = sample_files.metadata(**named | settings)
    with SampleWriter(path, described) as writer:
        for (prompt, sample), right in np.ndenumerate(correct):
            answer = {"pred": pred(prompt, sample), "data_source": data_source, "response_ids": [1, 2, 3, 4]}
            writer.append(sample_files.record(100 + prompt, sample, int(right), output="a", **answer))


@dataclass
class MadeUpReport:
    """Sample files of made-up methods on prompts of mixed difficulty, and the specification of their report."""

    folder: Path
    splits: tuple[str, ...] = ("in_domain", "out_of_domain")
    prompts: int = 24
    n: int = 16
    styles: tuple[str, ...] = ("JOIN", "IN", "EXISTS", "CTE", "AGG")
    greedy: bool = True
    content: dict = field(default_factory=lambda: {"title": "Made up", "summary": "Nothing was run.", "methods": {}})

    def __post_init__(self):
        if not self.styles:
            self.content["styles"] = []

    def method(self, name: str, skill: float = 0.0, kept_styles: int = 5, model: str | None = None, **entry) -> None:
        """Adds a method; skill moves the log-odds of being correct, kept_styles are those it answers in."""
        splits = self._files(name, skill, kept_styles, model or name)
        self.content["methods"][name] = {"splits": splits} | entry

    def checkpoint(self, name: str, step: int, skill: float) -> None:
        """Adds a checkpoint of a method that is there."""
        of = self.content["methods"][name].setdefault("checkpoints", {})
        of[str(step)] = {"splits": self._files(f"{name}_{step}", skill, 5, f"{name}_{step}")}

    def ask(self, **extra_info) -> None:
        """Adds the data files of the questions; a third of them are hard.

        Args:
            extra_info: lists of values, a value for each question in turn.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        from rl.data.prepare.prompt_template import sql_prompt

        self.content |= {"questions": {}, "groups": ["hard", *extra_info]}
        for split in self.splits:
            rows = []
            for i in range(self.prompts):
                message = {"role": "user", "content": sql_prompt("CREATE", f"Which </script> {i} of {split}?", "")}
                truth = {"db_id": "d", "gold_sql": f"SELECT {i} FROM t WHERE a = 1", "cmp_method": "bird"}
                info = {"hard": i % 3 == 0} | {key: values[i % len(values)] for key, values in extra_info.items()}
                row = {"id": 100 + i, "prompt": [message], "reward_model": {"ground_truth": truth}, "extra_info": info}
                rows.append(row)
            pq.write_table(pa.Table.from_pylist(rows), self.folder / f"{split}.parquet")
            self.content["questions"][split] = f"{split}.parquet"

    def write(self) -> Path:
        from rl.common.fingerprint import file_sha256

        for s, split in enumerate(self.splits):
            data = self.folder / f"{split}.parquet"
            for path in self.folder.glob(f"*.{s}.*meta.json") if data.exists() else ():
                described = json.loads(path.read_text())
                if described["data_files"] == UNKNOWN:
                    path.write_text(json.dumps(described | {"data_files": {str(data): file_sha256(data)}}))
        path = self.folder / "spec.json"
        path.write_text(json.dumps(self.content))
        return path

    def _files(self, name: str, skill: float, kept_styles: int, model: str) -> dict[str, dict[str, str]]:
        splits = {}
        for s, split in enumerate(self.splits):
            seed = zlib.crc32(f"{name} {split}".encode())
            rng = np.random.default_rng(seed)
            difficulty = np.random.default_rng(s).normal(0, 2, self.prompts)
            chance = 1 / (1 + np.exp(difficulty - skill))
            style = rng.integers(max(kept_styles, 1), size=(self.prompts, self.n))

            def pred(prompt: int, sample: int, style=style) -> str:
                return f"/*{self.styles[style[prompt, sample]]}*/ SELECT 1" if self.styles else "1"

            what = {"model": model, "seed": seed, "data_source": "sql" if self.styles else "lighteval/MATH"}
            files = {"samples": f"{name}.{s}.jsonl"}
            write_samples(self.folder / files["samples"], rng.random(style.shape) < chance[:, None], pred, **what)
            if self.greedy:
                files["greedy"] = f"{name}.{s}.greedy.jsonl"
                best = (rng.random(self.prompts) < chance)[:, None]
                write_samples(self.folder / files["greedy"], best, pred, **what, temperature=0.0)
            splits[split] = files
        return splits


@pytest.fixture(scope="session")
def made_up_report():
    """The class, for suites that make reports."""
    return MadeUpReport


@pytest.fixture(scope="session")
def full_disk():
    @contextlib.contextmanager
    def full_disk(limit: int):
        """Files of this process end at `limit` bytes: RLIMIT_FSIZE fails a write as a full disk does, in its middle."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)

    return full_disk
