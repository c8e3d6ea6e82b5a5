"""`dph prepare dapo` and `math-eval` on small files in the official formats."""

import json

import pyarrow.parquet as pq
import pytest

from rl.data.benchmarks import MATH_TESTS
from rl.data.prepare.row_writer import BadRecord, row_id
from rl.data.rows import read_rows
from tests.data.prepare.conftest import read_bad, write_lines
from tests.sample_files import write_parquet

HEAD = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
TAIL = '\n\nRemember to put your answer on its own line after "Answer:".'
END = "\n\nPlease reason step by step, and put your final answer within \\boxed{}."


def dapo_row(content, answer, index="i"):
    return {
        "prompt": [{"content": content, "role": "user"}],
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": index},
    }


def test_dapo_without_its_duplicates(prepare, tmp_path):
    """A row per problem, at its first place over all files; bad rows and contradicting answers are listed."""
    first = [
        dapo_row(HEAD + "A?" + TAIL, "1"),
        dapo_row(HEAD + "no tail", "1"),
        dapo_row("already\n\nbare", "5", "uuid-2"),
        dapo_row(HEAD + "A?" + TAIL, "3"),
    ]
    second = [dapo_row(HEAD + "B?" + TAIL, ""), dapo_row(HEAD + "C?" + TAIL, "034"), dapo_row("already\n\nbare", "5.0")]
    second.append(dapo_row("x", "1") | {"prompt": []})
    second.append(dapo_row("x", "1") | {"reward_model": None})
    files = [write_parquet(tmp_path / "1.parquet", *first), write_parquet(tmp_path / "2.parquet", *second)]
    output = tmp_path / "o.parquet"
    finished = prepare("dapo", "--input", *files, "--output", output)
    assert finished.exit_code == 0, finished.err
    assert "9 rows; 2 of them repeat an earlier one.\nWrote 2 rows" in finished.out
    assert "5 records are left out" in finished.out
    bare, boxed = pq.read_table(output).to_pylist()
    assert bare == {
        "data_source": "math_dapo",
        "prompt": [{"role": "user", "content": "already\n\nbare" + END}],
        "reward_model": {"style": "rule", "ground_truth": "5"},
        "id": 70_000_002,
        "extra_info": {
            "index": 2,
            "split": "train",
            "source": "1.parquet",
            "source_id": "uuid-2",
            "subject": None,
            "level": None,
        },
    }
    assert (boxed["id"], boxed["prompt"][0]["content"]) == (70_000_005, "C?" + END)
    assert [row.question for row in read_rows([output])] == [{"ground_truth": "5"}, {"ground_truth": "34"}]
    assert [(line["file"][-9:], line["record"], line["reason"]) for line in read_bad(output)] == [
        ("1.parquet", 1, "its prompt has only one half of DAPO's instructions around the problem"),
        ("2.parquet", 0, "its answer is empty"),
        ("2.parquet", 3, "its prompt is not one message"),
        ("2.parquet", 4, "its answer is neither a text nor a number"),
        ("1.parquet", 0, "its rows have different answers: 1, 3"),
    ]


# Name, a record in the published format, the problem and the answer of its row.
RECORDS = [
    ("aime24", {"id": 60, "problem": "P", "solution": "S", "answer": "204", "question": "P"}, "P", "204"),
    ("aime25", {"problem": "P", "answer": "070"}, "P", "70"),
    ("amc23", {"id": 0, "problem": "P", "answer": 27.0, "question": "P"}, "P", "27"),
    (
        "math500",
        {
            "problem": "P",
            "solution": "S",
            "answer": "\\left( 3, \\frac{\\pi}{2} \\right)",
            "subject": "Precalculus",
            "level": 2,
            "unique_id": "test/precalculus/807.json",
        },
        "P",
        "\\left( 3, \\frac{\\pi}{2} \\right)",
    ),
    (
        "olympiadbench",
        {"context": "Let $n$ be large.", "question": "Q", "final_answer": ["$1$", "$2 n$"], "is_multiple_answer": True},
        "Let $n$ be large.\n\nQ",
        "1, 2 n",
    ),
    (
        "minerva_math",
        {"problem": "P", "solution": "\\boxed{4.5e33}", "type": "T", "idx": 1},
        "P",
        "4.5 \\times 10^{33}",
    ),
    ("college_math", {"question_number": "exercise.0", "question": "Q", "answer": "$10-4 n$"}, "Q", "10-4 n"),
    ("gsm8k", {"question": "Q", "answer": "2*35=<<2*35=70>>70\n#### 70,000", "idx": 2}, "Q", "70000"),
]


def test_all_test_sets_of_a_folder(prepare, tmp_path):
    for name, record, *_ in RECORDS:
        write_lines(tmp_path / "in" / name / "test.jsonl", [record])
    finished = prepare("math-eval", "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert finished.exit_code == 0, finished.err
    assert "Not found" not in finished.out
    assert [name for name, *_ in RECORDS] == list(MATH_TESTS)
    rows = read_rows([tmp_path / "out" / f"{name}.parquet" for name in MATH_TESTS])
    assert [row.data_source for row in rows] == list(MATH_TESTS)
    assert [row.messages[0]["content"] for row in rows] == [problem + END for _, _, problem, _ in RECORDS]
    assert [row.question["ground_truth"] for row in rows] == [answer for *_, answer in RECORDS]
    assert [row.id for row in rows] == [data.id_blocks["test"] * 10_000_000 for data in MATH_TESTS.values()]
    details = pq.read_table(tmp_path / "out" / "math500.parquet")["extra_info"].to_pylist()[0]
    assert details == {
        "index": 0,
        "split": "test",
        "source": "test.jsonl",
        "source_id": "test/precalculus/807.json",
        "subject": "Precalculus",
        "level": "2",
    }


def test_parquet_and_json_files_by_name(prepare, tmp_path):
    write_parquet(tmp_path / "aime2025.parquet", {"Problem": "P", "Answer": 25})
    (tmp_path / "amc23.json").write_text(json.dumps([{"problem": "P", "answer": 3}]))
    write_lines(tmp_path / "college_math.json", [{"question": "Q", "answer": 4}] * 2)
    named = ("aime25", "amc23", "college_math")
    finished = prepare("math-eval", "--input", tmp_path, "--output", tmp_path / "out")
    assert finished.exit_code == 0, finished.err
    rows = read_rows([tmp_path / "out" / f"{name}.parquet" for name in named])
    assert [row.question["ground_truth"] for row in rows] == ["25", "3", "4", "4"]
    assert "Not found: aime24, math500," in finished.out


def test_bad_problems_are_listed(prepare, tmp_path):
    path = write_lines(
        tmp_path / "olympiadbench" / "test.jsonl",
        [
            {"question": "Q", "final_answer": ["1"], "is_multiple_answer": False},
            {"question": "Q", "final_answer": ["1", "2"], "is_multiple_answer": False},
            {"question": "See <image_1>.", "final_answer": ["1"], "is_multiple_answer": False},
            {"question": "Prove it.", "final_answer": None, "is_multiple_answer": False},
            {"question": " ", "final_answer": ["1"]},
            [],
        ],
    )
    with path.open("a") as file:
        file.write('\n{"question": "cut o')
    finished = prepare("math-eval", "--input", tmp_path, "--output", tmp_path / "out")
    assert finished.exit_code == 0, finished.err
    output = tmp_path / "out" / "olympiadbench.parquet"
    assert pq.read_table(output)["id"].to_pylist() == [120_000_000]
    assert [(line["record"], line["reason"]) for line in read_bad(output)] == [
        (1, "it has several final answers, but is not marked so"),
        (2, "its problem has an image"),
        (3, "it has no final answer"),
        (4, "it has no problem or question"),
        (5, "it is not a JSON object"),
        (6, "it is not a JSON object"),
    ]
    assert "       2  it is not a JSON object\n" in finished.out


def test_wrong_settings(prepare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, sentence in [
        (["--input", "."], "There is no aime24/test.jsonl or aime24.parquet in --input ."),
        (["--input", ".", "--only", "gsm8k"], "There is no gsm8k/test.jsonl or gsm8k.parquet in --input ."),
        ([], "Error: The test sets have no source: give --input DIR or --download"),
    ]:
        finished = prepare("math-eval", *arguments, "--output", "out")
        assert finished.exit_code == 2 and sentence in finished.err, arguments
    assert not list(tmp_path.rglob("*.parquet"))
    with pytest.raises(BadRecord):
        row_id("aime24", "test", 10_000_000)
