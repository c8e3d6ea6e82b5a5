"""`dph prepare bird` and `spider` on small files in the official formats: rows, variants, corrections, audited rows."""

import json

import pyarrow.parquet as pq
import pytest

from rl.common.errors import UserError
from rl.common.fingerprint import file_sha256
from rl.data.prepare import sql
from rl.data.rows import read_rows
from rl.data.sample_file import SampleWriter, read_metadata
from rl.data.tokenizer import CHARACTERS_PER_TOKEN
from rl.scorer.answers import read_sql
from rl.scorer.databases import DatabaseUnreadable, find_database
from tests.data.prepare.conftest import contents, of_bird, read_bad, write_database, write_lines
from tests.sample_files import metadata_of, write_samples


@pytest.fixture
def prepare_bird(prepare, bird):
    """Runs dph prepare bird on the small dev set; the result and the parquet's path."""

    def run(*arguments, output="dev.parquet"):
        return prepare(*of_bird("--output", bird / output, *arguments)), bird / output

    return run


def change(path, edit) -> None:
    """Edits the records of a JSON file."""
    records = json.loads(path.read_text())
    edit(records)
    path.write_text(json.dumps(records))


def test_bird_rows(prepare_bird):
    finished, output = prepare_bird()
    assert finished.exit_code == 0, finished.err
    assert "3 questions, 2 databases" in finished.out and f"Wrote 3 rows to {output}." in finished.out
    assert [row.id for row in read_rows([output])] == [20_000_000, 20_000_001, 20_000_002]  # as the sampler checks them
    second = pq.read_table(output).to_pylist()[1]
    [message] = second.pop("prompt")
    truth = {"db_id": "shop/shop.sqlite", "gold_sql": "SELECT name FROM customer", "cmp_method": "bird"}
    assert second == {
        "data_source": "bird",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "id": 20_000_001,
        "extra_info": {
            "index": 1,
            "split": "dev",
            "source": "dev.json",
            "question_id": 1,
            "difficulty": "moderate",
            "tables_without_examples": 0,
        },
    }
    assert message["role"] == "user"
    for part in (
        "    `Total (USD)` REAL, -- e.g. 9.5, 20.0\n",
        "FOREIGN KEY (customer_id) REFERENCES customer (id)\n",
        "Question:\nWho has an order?\n",
        "an order refers to customer_id\n",
    ):
        assert part in message["content"]
    # The block of the prompt is the one that the scorer strips.
    block = message["content"][message["content"].index("```sql") :].strip()
    assert read_sql(block) is None and read_sql(f"{block}\n```sql\nSELECT 1\n```") == "SELECT 1"
    assert sorted(path.name for path in output.parent.iterdir()) == [
        *("dev.json", "dev.meta.json", "dev.parquet", "dev_databases")
    ]
    manifest = json.loads((output.parent / "dev.meta.json").read_text())
    assert (manifest["rows"], manifest["rejected"]) == (3, 0)
    assert manifest["inputs"] == [{"file": "dev.json", "sha256": file_sha256("dev.json")}]

    _, again = prepare_bird(output="b.parquet")
    assert again.read_bytes() == output.read_bytes()


def test_bad_records_are_listed_and_the_others_keep_their_ids(prepare_bird, bird, monkeypatch):
    def spoil(records):
        records[0]["SQL"] = " "
        records += [
            {"question_id": 3, "db_id": "gone", "question": "q", "SQL": "SELECT 1"},
            {"question_id": 4, "db_id": "../shop", "question": "q", "SQL": "SELECT 1"},
            {"question_id": 2, "db_id": "shop", "question": "again", "SQL": "SELECT 1"},
            {"question_id": "x", "db_id": "shop", "question": "q", "SQL": "SELECT 1"},
            {"db_id": "shop", "question": "q", "SQL": "SELECT 1"},
            "text",
            {"question_id": 5, "db_id": "shop", "question": "half a pair: \ud83d", "SQL": "SELECT 1"},
            {"question_id": 6, "db_id": "locked", "question": "q", "SQL": "SELECT 1"},
        ]

    def find(root, path):
        if path.startswith("locked"):
            raise DatabaseUnreadable("Permission denied")
        return find_database(root, path)

    monkeypatch.setattr(sql, "find_database", find)  # root may read everything
    change(bird / "dev.json", spoil)
    finished, output = prepare_bird()
    assert finished.exit_code == 0, finished.err
    assert pq.read_table(output)["id"].to_pylist() == [20_000_001, 20_000_002]
    assert "9 records are left out" in finished.out
    assert "2  its database cannot be used (such as database gone: " in finished.out
    bad = read_bad(output)
    assert [line["record"] for line in bad] == [0, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [line["reason"].partition(":")[0] for line in bad] == [
        "its SQL is missing or not a text",
        "database gone",
        "its db_id is not the name of a folder",
        "an earlier record has its id",
        "its question_id is not a whole number",
        "its question_id is not a whole number",
        "it is not a JSON object",
        "it has half of a surrogate pair, which no file can hold",
        "database locked",
    ]
    assert bad[3]["about"] == "again"

    change(bird / "dev.json", lambda records: records.__delitem__(slice(3, None)) or records[0].update(SQL="SELECT 1"))
    finished, output = prepare_bird()
    assert not output.with_suffix(".bad.jsonl").exists(), "the list of an earlier run stays"


def test_train_ids_are_positions_and_databases_may_lie_below_the_scorers(prepare, bird, monkeypatch):
    monkeypatch.chdir(bird)
    change(bird / "dev.json", lambda records: [record.pop("question_id") for record in records])
    options = ["--split", "train", "--input", "dev.json", "--databases", "dev_databases", "--database-path", bird]
    finished = prepare("bird", *options)
    assert "bird train: 100%" in finished.err and "Wrote 3 rows to data/sql/bird_train.parquet." in finished.out
    table = pq.read_table("data/sql/bird_train.parquet")
    assert table["id"].to_pylist() == [10_000_000, 10_000_001, 10_000_002]
    truths = [row["ground_truth"]["db_id"] for row in table["reward_model"].to_pylist()]
    assert truths[2] == "dev_databases/school/school.sqlite"


def test_budget_drops_values_then_records(prepare_bird, bird):
    _, output = prepare_bird()
    shop, _, school = contents(output)
    below_shop = int(len(shop) / CHARACTERS_PER_TOKEN)
    finished, output = prepare_bird("--max-prompt-tokens", below_shop - 1)
    rows = pq.read_table(output).to_pylist()
    dropped = [row["extra_info"]["tables_without_examples"] for row in rows]
    assert dropped[0] == 1 and dropped[-1] == 0
    assert "'Ann'" not in rows[0]["prompt"][0]["content"] and "9.5" in rows[0]["prompt"][0]["content"]
    shortened = sum(count > 0 for count in dropped)
    assert f"Fewer example values in {shortened} prompt" in finished.out and "estimated" in finished.out
    assert all(len(row["prompt"][0]["content"]) <= (below_shop - 1) * CHARACTERS_PER_TOKEN for row in rows)

    finished, output = prepare_bird("--max-prompt-tokens", int(len(school) / CHARACTERS_PER_TOKEN) + 1)
    assert pq.read_table(output)["id"].to_pylist() == [20_000_002]
    assert {line["reason"] for line in read_bad(output)} == {
        "its prompt is above --max-prompt-tokens even without example values"
    }


def test_budget_is_counted_with_a_tokenizer(prepare_bird, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    template = "{% for message in messages %}<user> {{ message['content'] }} <end>{% endfor %}"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", chat_template=template).save_pretrained(
        tmp_path / "model"
    )
    _, output = prepare_bird()
    words = [len(content.split()) + 2 for content in contents(output)]
    finished, output = prepare_bird("--tokenizer", tmp_path / "model", "--max-prompt-tokens", words[1])
    assert "counted" in finished.out
    assert [info["tables_without_examples"] for info in pq.read_table(output)["extra_info"].to_pylist()] == [0, 0, 0]
    _, output = prepare_bird("--tokenizer", tmp_path / "model", "--max-prompt-tokens", words[1] - 1)
    assert [info["tables_without_examples"] for info in pq.read_table(output)["extra_info"].to_pylist()] == [0, 1, 0]


def test_wrong_settings_and_files(prepare_bird, bird):
    for arguments, sentence in [
        (["--database-path", "/usr"], "is not below --database-path /usr"),
        (["--max-prompt-tokens", "0"], "--max-prompt-tokens is 0"),
        (["--tokenizer", "/usr"], "--tokenizer /usr holds no tokenizer"),
        (["--output", "dev.json"], "The output dev.json is not a .parquet"),
    ]:
        finished, output = prepare_bird(*arguments)
        assert finished.exit_code == 2 and sentence in finished.err and not output.exists(), arguments
    (bird / "dev.parquet").write_text("an earlier result")
    for content, sentence in [
        ("{}", "is not a JSON list of records"),
        ('[{"db_id": "shop"}]', "None of the 1 records makes a row"),
        ("[1", "is not a JSON list of records"),
    ]:
        (bird / "dev.json").write_text(content)
        finished, output = prepare_bird()
        assert finished.exit_code == 2 and sentence in finished.err, content[:20]
    assert output.read_text() == "an earlier result" and not list(bird.glob("*.tmp"))


def test_spider_of_two_files_with_tables(prepare, tmp_path):
    write_database(
        tmp_path / "database" / "concert_singer" / "concert_singer.sqlite",
        "CREATE TABLE stadium (Stadium_ID int, Name text)",
        "CREATE TABLE concert (concert_ID int, Stadium_ID text, Year text)",
        "INSERT INTO stadium VALUES (1, 'Stark''s Park')",
    )
    record = {"db_id": "concert_singer", "query": "SELECT count(*) FROM stadium", "question": "How many?", "sql": {}}
    for name in ("train_spider", "train_others"):
        (tmp_path / f"{name}.json").write_text(json.dumps([record, record]))
    tables = {
        "db_id": "concert_singer",
        "table_names_original": ["stadium", "concert"],
        "column_names_original": [
            [-1, "*"], [0, "Stadium_ID"], [0, "Name"], [1, "concert_ID"], [1, "Stadium_ID"], [1, "Year"],
        ],
        "primary_keys": [1, 3],
        "foreign_keys": [[4, 1]],
    }  # fmt: skip
    (tmp_path / "tables.json").write_text(json.dumps([tables]))
    inputs = ["--input", tmp_path / "train_spider.json", tmp_path / "train_others.json"]
    options = ["--split", "train", "--databases", tmp_path / "database", "--output", tmp_path / "train.parquet"]
    finished = prepare("spider", *inputs, *options, "--tables", tmp_path / "tables.json")
    assert finished.exit_code == 0, finished.err
    rows = read_rows([tmp_path / "train.parquet"])
    assert [row.id for row in rows] == [40_000_000, 40_000_001, 40_000_002, 40_000_003]
    assert rows[0].question["cmp_method"] == "spider"
    content = rows[0].messages[0]["content"]
    assert "FOREIGN KEY (Stadium_ID) REFERENCES stadium (Stadium_ID)" in content and "'Stark''s Park'" in content
    metadata = json.loads((tmp_path / "train.meta.json").read_text())
    assert metadata["inputs"][2]["sha256"] == file_sha256(tmp_path / "tables.json")


def test_what_fails_leaves_the_earlier_result(prepare_bird, bird, monkeypatch, full_disk):
    def interrupt(*_):
        raise KeyboardInterrupt

    _, output = prepare_bird()
    before = output.read_bytes()
    with full_disk(1000):
        finished, _ = prepare_bird()
    assert finished.exit_code == 2 and "cannot be written" in finished.err
    monkeypatch.setattr("rl.data.prepare.sql.fit_sql_prompt", interrupt)
    assert prepare_bird()[0].exit_code == 130
    assert output.read_bytes() == before and not list(bird.glob("*.tmp"))


def test_samples_and_prompts_of_one_name_do_not_take_each_others_metadata(prepare_bird, bird):
    """dev.parquet and dev.jsonl would both have dev.meta.json."""
    _, output = prepare_bird()
    before = output.with_suffix(".meta.json").read_bytes()
    with pytest.raises(UserError, match="dev.meta.json is not of the format dph-samples/1 but dph-prompts/1"):
        SampleWriter(output.with_suffix(".jsonl"), metadata_of(output))
    assert output.with_suffix(".meta.json").read_bytes() == before and not output.with_suffix(".jsonl").exists()

    samples = write_samples(bird / "drawn.jsonl", output, {20_000_000: [1]}, n=1)
    finished, _ = prepare_bird(output="drawn.parquet")
    assert finished.exit_code == 2 and "drawn.meta.json is not of the format dph-prompts/1" in finished.err
    assert read_metadata(samples).n == 1 and not (bird / "drawn.parquet").exists()


def test_mini_dev_on_sqlite_and_postgresql(prepare, bird):
    done = prepare(*of_bird("--variant", "mini"))
    assert done.exit_code == 0 and "Wrote 3 rows to data/sql/bird_mini_dev.parquet." in done.out, done.err
    row = read_rows(["data/sql/bird_mini_dev.parquet"])[1]
    assert (row.id, row.data_source, row.question["db_id"]) == (160_000_001, "bird_mini", "shop/shop.sqlite")
    assert row.question["cmp_method"] == "bird"
    done = prepare(*of_bird("--variant", "mini_pg"))
    assert done.exit_code == 0, done.err
    row = read_rows(["data/sql/bird_mini_pg_dev.parquet"])[0]
    assert (row.id, row.data_source, row.question["db_id"]) == (170_000_000, "bird_mini_pg", "postgresql/shop")
    content = row.messages[0]["content"]
    assert "engine:\nPostgreSQL\n" in content and '"Total (USD)" REAL' in content and "in double quotes" in content
    assert prepare(*of_bird("--variant", "mini_pg", "--db-id", "pg/BIRD")).exit_code == 0
    assert {row.question["db_id"] for row in read_rows(["data/sql/bird_mini_pg_dev.parquet"])} == {"pg/BIRD"}
    done = prepare(*of_bird("--variant", "mini", "--db-id", "pg/BIRD"))
    assert done.exit_code == 2 and "--db-id is of --variant mini_pg: the databases of bird_mini are SQLite" in done.err
    done = prepare("bird", "--split", "train", *of_bird("--variant", "mini")[3:])
    assert done.exit_code == 2 and "--split is train, but bird_mini has dev: give one of them." in done.err


def test_corrections(prepare, bird):
    fixes = [
        {"question_id": 1, "corrected_sql": "SELECT DISTINCT name FROM customer"},
        {"question_id": 2, "corrected_sql": "SELECT max(grade) FROM pupil"},
        {"question_id": 77, "corrected_sql": "SELECT 1"},
    ]
    (bird / "fixes.json").write_text(json.dumps(fixes))
    write_lines(bird / "fixes.jsonl", fixes)
    for name in ("fixes.json", "fixes.jsonl"):
        done = prepare(*of_bird("--corrections", name, "--output", "c.parquet"))
        assert done.exit_code == 0 and f"{name} corrects 1 record that --input lacks: id 77.\n" in done.err
        rows = pq.read_table("c.parquet").to_pylist()
        assert [row["reward_model"]["ground_truth"]["gold_sql"] for row in rows] == [
            "SELECT COUNT(*) FROM customer",
            "SELECT DISTINCT name FROM customer",
            "SELECT max(grade) FROM pupil",
        ]
        assert [row["extra_info"]["source"] for row in rows] == ["dev.json", name, name]
        assert json.loads((bird / "c.meta.json").read_text())["inputs"][1]["file"] == name
    # A review's list has both queries.
    write_lines(bird / "review.jsonl", [{"question_id": 0, "SQL": "SELECT 1", "corrected_sql": "SELECT 7"}])
    assert prepare(*of_bird("--corrections", "review.jsonl", "--output", "c.parquet")).exit_code == 0
    row = pq.read_table("c.parquet").to_pylist()[0]
    assert row["reward_model"]["ground_truth"]["gold_sql"] == "SELECT 7"
    for fix, sentence in (
        ({"corrected_sql": "SELECT 1"}, "record 0 is not a correction: give a question_id and a corrected_sql."),
        ({"question_id": 1, "note": "wrong"}, "record 0 is not a correction"),
        ({"question_id": 9, "corrected_sql": "SELECT 1"}, "corrects no record of --input"),
        ({"question_id": 1, "db_id": "zoo", "corrected_sql": "SELECT 1"}, "has database zoo for question 1, --input"),
    ):
        write_lines(bird / "fixes.jsonl", [fix])
        done = prepare(*of_bird("--corrections", "fixes.jsonl"))
        assert done.exit_code == 2 and f"fixes.jsonl {sentence}" in done.err


OMNISQL = """\
CREATE TABLE customer (
    id INTEGER, -- example: [1, 2]
    name TEXT, -- example: ['Ann', "O'Neil"]
    joined DATE, -- example: ['2020-01-01', '2021-05-05']
    PRIMARY KEY (id)
);

CREATE TABLE `order` (
    id INTEGER, -- example: [7, 8]
    customer_id INTEGER, -- example: [1, 2]
    `Total (USD)` REAL, -- example: [9.5, 20.0]
    PRIMARY KEY (id, customer_id),
    CONSTRAINT fk_order_customer_id FOREIGN KEY (customer_id) REFERENCES customer (id)
);
This schema describes the database's structure, including"""


def test_omnisqls_template(prepare, bird):
    assert prepare(*of_bird("--template", "omnisql", "--output", "o.parquet")).exit_code == 0
    first, second, _ = contents("o.parquet")
    assert first.startswith("Task Overview:\nYou are a data science expert. Below,") and OMNISQL in first
    assert first.endswith("Take a deep breath and think step by step to find the correct SQL query.\n")
    assert "\n\nQuestion:\nan order refers to customer_id\nWho has an order?\n\nInstructions:\n" in second
