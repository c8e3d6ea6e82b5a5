"""The road of docs/tutorials/own-database.md, walked on a CPU with questions, databases and a model of the tests.

The commands are the page's own. The model has learnt by heart what to say: it always answers some of the questions
right, the others now and then. Before each command comes a wrong turn, with the sentence that it gives.
"""

import json
import os
import re
import sqlite3
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoTokenizer

from tests.programs import REPOSITORY, output_of, serving
from tests.tiny_run import teach

PAGE = REPOSITORY / "docs" / "tutorials" / "own-database.md"
MASTERED, EXPLORED = 12, 16
# In place of the page's model and lengths; its batch sizes are the page's.
VARIABLES = {"DEVICE": "cpu", "GPUS_PER_NODE": "1", "OMP_NUM_THREADS": "1"}
LENGTHS = ("data.max_prompt_length=250", "data.max_response_length=4")
STEPS = ("trainer.total_training_steps=2", "trainer.save_freq=1")
TIME_LIMIT_S = 280


def query(number: int) -> str:
    return f"SELECT Name FROM singer WHERE Age > {20 + number}"


def response(sql: str) -> str:
    return f"```sql\n{sql}\n```"


class Traveller:
    """A user in a folder that looks like a checkout, with `mine/` in it.

    The page's commands follow the line `export TRAIN_FILE=...`; its first YAML block is mine/experiment/mine.yaml.
    """

    def __init__(self, folder: Path):
        self.folder, self.mine, self.model = folder, folder / "mine", folder / "model"
        for name in ("data", "rl", "scripts"):
            (folder / name).symlink_to(REPOSITORY / name)
        blocks = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        start = next(number for number, block in enumerate(blocks) if "export TRAIN_FILE=" in block)
        lines = "".join(blocks[start:]).splitlines()
        self.exports = "\n".join(line for line in lines if line.startswith("export "))
        self.commands = [line for line in lines if not line.startswith("export ")]
        ours = dict.fromkeys(("dph presample", "dph store", "dph evaluate"), LENGTHS) | {"dph train": LENGTHS + STEPS}
        self.commands = [" ".join([line, *ours.get(" ".join(line.split()[:2]), [])]) for line in self.commands]
        self.settings = dict(VARIABLES)
        self.output: dict[str, str] = {}

    def walk(self, command: str, code: int = 0, **settings: str) -> str:
        """What a command prints, as the page has it, after the page's settings, ours and these."""
        values = {"MODEL_PATH": str(self.model)} | self.settings | settings
        ours = "\n".join(f"export {name}='{value}'" for name, value in values.items())
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("DPH_", "VERL_"))}
        return output_of(
            ["bash", "-c", f"{self.exports}\n{ours}\n{command}"],
            cwd=self.folder,
            environment=environment | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            timeout=TIME_LIMIT_S,
            code=code,
        )

    def wrong_turn(self, command: str, **settings: str) -> str:
        """What a command says that is wrong: a sentence for each fault."""
        said = self.walk(command, code=2, **settings)
        assert "Traceback" not in said and "vllm version" not in said, said[-6000:]
        before, error, sentences = said.rpartition("Error: ")
        assert error and before[-1:] in ("", "\n"), said[-6000:]
        return sentences

    def command(self, part: str) -> str:
        [found] = [line for line in self.commands if part in line]
        return found

    def make_questions(self) -> None:
        """mine/train.json and mine/databases/concert_singer, as Spider has it."""
        database = self.mine / "databases" / "concert_singer" / "concert_singer.sqlite"
        database.parent.mkdir(parents=True)
        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE singer (Singer_ID INTEGER PRIMARY KEY, Name TEXT, Age INTEGER)")
            connection.executemany("INSERT INTO singer VALUES (?, ?, ?)", [(i, f"N{i}", 20 + i) for i in range(60)])
        connection.close()
        records = [
            {
                "db_id": "concert_singer",
                "question": f"What are the names of the singers older than {20 + i} ?",
                "evidence": "",
                "SQL": query(i),
            }
            for i in range(MASTERED + EXPLORED)
        ]
        (self.mine / "train.json").write_text(json.dumps(records))
        (self.mine / "experiment").mkdir()
        experiment = re.search(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        (self.mine / "experiment" / "mine.yaml").write_text(experiment[1])

    def make_model(self, word_llama) -> None:
        """A word-level Llama whose vocabulary has each response as one word."""
        numbers = [str(20 + i) for i in range(MASTERED + EXPLORED)]
        responses = [response(query(i)) for i in range(MASTERED + EXPLORED)] + [response("SELECT 1")]
        words = ["<pad>", "<eos>", "<unk>", *numbers, *responses]
        template = "{{ messages[0]['content'] }}"
        self.network = word_llama(self.model, words, template=template, max_position_embeddings=320)

    def teach(self, parquet: str, said: list[tuple[str, str]], lr: float, steps: int) -> None:
        """Fine-tune the model on prompts that were prepared.

        Args:
            said: what it is to say to each prompt, either one as often; the same twice where it masters the prompt.
        """
        tokenizer = AutoTokenizer.from_pretrained(self.model)
        rows = pq.read_table(self.folder / parquet, columns=["prompt"]).to_pylist()
        prompts = [tokenizer(row["prompt"][0]["content"])["input_ids"] for row in rows]
        batch = torch.tensor(
            [
                [*prompt, tokenizer.convert_tokens_to_ids(word), tokenizer.eos_token_id]
                for prompt, words in zip(prompts, said, strict=True)
                for word in words
            ]
        )
        logits = teach(self.network, batch, lr=lr, steps=steps)
        sure = logits[:, 0].softmax(-1).gather(1, batch[:, -2:-1])[::2, 0] > 0.95
        assert sum(sure) > 0.9 * sum(first == second for first, second in said)
        self.network.save_pretrained(self.model)


@pytest.fixture(scope="session")
def traveller(tmp_path_factory, word_llama):
    traveller = Traveller(tmp_path_factory.mktemp("road"))
    traveller.make_questions()
    traveller.make_model(word_llama)
    return traveller


@pytest.fixture(scope="session")
def prepared(traveller):
    missing = traveller.command("dph prepare").replace("mine/databases", "mine/elsewhere")
    traveller.output["no databases"] = traveller.wrong_turn(missing)
    traveller.output["prepare"] = traveller.walk(traveller.command("dph prepare"))
    return traveller


@pytest.fixture(scope="session")
def audited(prepared):
    audit = prepared.command("dph audit")
    prepared.output["audit of other databases"] = prepared.wrong_turn(audit.split(" --database-path")[0])
    prepared.output["audit"] = prepared.walk(audit)
    return prepared


@pytest.fixture(scope="session")
def sampled(audited):
    """One scorer serves from here on."""
    wrong = response("SELECT 1")
    right = [response(query(i)) for i in range(MASTERED + EXPLORED)]
    said = [(text, text if i < MASTERED else wrong) for i, text in enumerate(right)]
    audited.teach("mine/train.parquet", said, lr=5e-3, steps=400)
    sample = audited.command("dph presample")
    audited.output["no model"] = audited.wrong_turn(sample, MODEL_PATH="/no/model")
    serve = audited.command("dph scorer").removesuffix("&").split()
    with serving([sys.executable, "-m", "rl.cli", *serve[1:]], audited.folder, cwd=audited.folder) as (_, address):
        audited.settings["DPH_SCORER"] = address
        audited.output["presample"] = audited.walk(sample)
        yield audited


@pytest.fixture(scope="session")
def split(sampled):
    command = sampled.command("dph split")
    sampled.output["no D_exp"] = sampled.wrong_turn(f"{command} --threshold 1 --drop-zero")
    sampled.output["split"] = sampled.walk(command)
    return sampled


@pytest.fixture(scope="session")
def stored(split):
    train = split.command("dph train")
    split.output["no store"] = split.wrong_turn(train)
    split.output["store"] = split.walk(split.command("dph store"))
    return split


@pytest.fixture(scope="session")
def trained(stored):
    """Two wrong values, then two steps."""
    train = stored.command("dph train")
    wrong = "actor_rollout_ref.actor.sft_loss_mode=jss trainer.total_training_steps=two"
    stored.output["wrong values"] = stored.wrong_turn(f"{train} {wrong}")
    stored.output["train"] = stored.walk(train)
    return stored


@pytest.fixture(scope="session")
def evaluated(trained):
    evaluate = trained.command("dph evaluate")
    trained.output["no run"] = trained.wrong_turn(evaluate.replace("/first", "/second"))
    trained.output["evaluate"] = trained.walk(f"{evaluate} evaluate.n=8")
    return trained
