"""The road of docs/tutorials/own-database.md, walked on a CPU with questions, databases and a model of the tests.

The commands are the page's own, and each finds what the one before it left. The model has learnt by heart what to say:
it always answers some of the questions right, the others now and then.
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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PAGE = REPOSITORY / "docs" / "tutorials" / "own-database.md"
MASTERED, EXPLORED = 12, 16
QUERIES = [f"SELECT Name FROM singer WHERE Age > {20 + i}" for i in range(MASTERED + EXPLORED)]
# In place of the page's model and lengths; its batch sizes are the page's.
VARIABLES = {"DEVICE": "cpu", "GPUS_PER_NODE": "1", "OMP_NUM_THREADS": "1"}
LENGTHS = "data.max_prompt_length=250 data.max_response_length=4"
OURS = dict.fromkeys(("presample", "store"), LENGTHS)
OURS |= {"train": f"{LENGTHS} trainer.total_training_steps=2 trainer.save_freq=1"}
OURS |= {"evaluate": f"{LENGTHS} evaluate.n=8"}
TIME_LIMIT_S = 280


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
        self.commands = {line.split()[1]: line for line in lines if line.startswith("dph ")}
        self.settings = VARIABLES | {"MODEL_PATH": str(self.model)}

    def walk(self, name: str) -> str:
        """What a command prints, as the page has it, after the page's settings and ours."""
        ours = "\n".join(f"export {key}='{value}'" for key, value in self.settings.items())
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("DPH_", "VERL_"))}
        return output_of(
            ["bash", "-c", f"{self.exports}\n{ours}\n{self.commands[name]} {OURS.get(name, '')}"],
            cwd=self.folder,
            environment=environment | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            timeout=TIME_LIMIT_S,
        )

    def make_questions(self) -> None:
        """mine/train.json and mine/databases/concert_singer, as Spider has it."""
        database = self.mine / "databases" / "concert_singer" / "concert_singer.sqlite"
        database.parent.mkdir(parents=True)
        with sqlite3.connect(database) as connection:
            connection.execute("CREATE TABLE singer (Singer_ID INTEGER PRIMARY KEY, Name TEXT, Age INTEGER)")
            connection.executemany("INSERT INTO singer VALUES (?, ?, ?)", [(i, f"N{i}", 20 + i) for i in range(60)])
        connection.close()
        asked = [f"What are the names of the singers older than {20 + i} ?" for i in range(len(QUERIES))]
        records = [
            {"db_id": "concert_singer", "question": question, "evidence": "", "SQL": sql}
            for question, sql in zip(asked, QUERIES, strict=True)
        ]
        (self.mine / "train.json").write_text(json.dumps(records))
        (self.mine / "experiment").mkdir()
        experiment = re.search(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        (self.mine / "experiment" / "mine.yaml").write_text(experiment[1])

    def make_model(self, word_llama) -> None:
        """A word-level Llama whose vocabulary has each response as one word."""
        numbers = [str(20 + i) for i in range(len(QUERIES))]
        words = ["<pad>", "<eos>", "<unk>", *numbers, *map(response, QUERIES), response("SELECT 1")]
        template = "{{ messages[0]['content'] }}"
        self.network = word_llama(self.model, words, template=template, max_position_embeddings=320)

    def teach(self) -> None:
        """Fine-tune on the prepared prompts: the model masters some, and is wrong about the others as often as not."""
        tokenizer = AutoTokenizer.from_pretrained(self.model)
        rows = pq.read_table(self.mine / "train.parquet", columns=["prompt"]).to_pylist()
        batch = []
        for number, (row, sql) in enumerate(zip(rows, QUERIES, strict=True)):
            for said in (sql, sql if number < MASTERED else "SELECT 1"):
                answer = tokenizer.convert_tokens_to_ids(response(said))
                batch.append([*tokenizer(row["prompt"][0]["content"])["input_ids"], answer, tokenizer.eos_token_id])
        batch = torch.tensor(batch)
        logits = teach(self.network, batch, lr=5e-3, steps=400)
        sure = logits[:, 0].softmax(-1).gather(1, batch[:, -2:-1])[::2, 0] > 0.95
        assert sum(sure) > 0.9 * MASTERED
        self.network.save_pretrained(self.model)


@pytest.fixture(scope="module")
def walked(tmp_path_factory, word_llama):
    """The traveller at the end, and what each command printed."""
    traveller = Traveller(tmp_path_factory.mktemp("road"))
    traveller.make_questions()
    traveller.make_model(word_llama)
    printed = {name: traveller.walk(name) for name in ("prepare", "audit")}
    traveller.teach()
    serve = traveller.commands["scorer"].removesuffix("&").split()
    command = [sys.executable, "-m", "rl.cli", *serve[1:]]
    with serving(command, traveller.folder, cwd=traveller.folder) as (_, address):
        traveller.settings["DPH_SCORER"] = address
        printed |= {name: traveller.walk(name) for name in ("presample", "split", "store", "train", "evaluate")}
    return traveller, printed


def test_each_command_leaves_what_the_next_one_reads(walked):
    traveller, printed = walked
    assert pq.read_metadata(traveller.mine / "train.parquet").num_rows == len(QUERIES)
    assert [path.name for path in traveller.mine.iterdir() if "audit" in path.name]
    data = traveller.mine / "data"
    assert printed["presample"].endswith("Next: dph split --experiment mine/experiment/mine.yaml\n")
    assert len((data / "generate_data" / "0.jsonl").read_text().splitlines()) == 8 * len(QUERIES)
    parts = [pq.read_metadata(data / f"train_{part}.parquet").num_rows for part in ("correct", "wrong")]
    assert parts[0] >= MASTERED and sum(parts) == len(QUERIES)
    assert (data / "pef.pt").is_file()
    run = traveller.folder / "outputs" / "mine" / "first"
    assert (run / "latest_checkpointed_iteration.txt").read_text() == "2"
    assert str(run / "global_step_2").removeprefix(f"{traveller.folder}/") in printed["train"][-1500:]
    assert printed["train"].splitlines()[-1].startswith("Next: ")


def test_the_report_compares_with_the_base(walked):
    traveller, printed = walked
    assert "\nSampling base, base_again: mine.jsonl, mine.greedy.jsonl" in printed["evaluate"]
    report = json.loads((traveller.folder / "outputs" / "mine" / "eval" / "report.json").read_text())
    assert report["base"]["mine"]["prompts"] == report["dph_js"]["mine"]["prompts"] == len(QUERIES)


def test_nothing_is_written_elsewhere(walked):
    names = {path.name for path in walked[0].folder.iterdir()}
    assert names == {"data", "mine", "model", "outputs", "rl", "scripts"}
