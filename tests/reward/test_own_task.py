"""The worked example of docs/tutorials/own-task.md: its files as they stand there, and a real server."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rl.common.errors import UserError
from rl.data.inspect import main as inspect
from rl.data.questions import scorer_question
from rl.data.rows import read_rows
from rl.scorer.client.scorer_client import ScorerClient, ScorerUnavailable
from rl.scorer.client.shared import close_shared_clients
from tests.programs import REPOSITORY, SERVER_PROGRAM, serving
from verl.dph.reward.score import compute_score

PAGE = REPOSITORY / "docs" / "tutorials" / "own-task.md"


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Path:
    """A folder with the page's files, and the rows that its program writes."""
    folder = tmp_path_factory.mktemp("own")
    blocks = re.findall(r"^```\w+\n# (countdown/\S+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert [name for name, _ in blocks] == ["countdown/make_rows.py", "countdown/reward.py", "countdown/scorer.yaml"]
    for name, content in blocks:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    # Raises, and returns what is not a score.
    (folder / "countdown" / "faulty.py").write_text(
        "def score(response, ground_truth):\n"
        "    return {'raise': lambda: ground_truth['absent'], 'two': lambda: 2, 'half': lambda: 0.5,\n"
        "            'nan': lambda: float('nan'), 'loop': loop}[response]()\n\n"
        "def loop():\n    while True:\n        pass\n"
    )
    settings = (folder / "countdown" / "scorer.yaml").read_text()
    settings += (
        settings[settings.index("  Scorer1") :]
        .replace("Scorer1", "Scorer2")
        .replace("task: countdown", "task: faulty")
        .replace("countdown/reward.py", "countdown/faulty.py")
        .replace("prediction_seconds: 5", "prediction_seconds: 0.3")
    )
    (folder / "countdown" / "both.yaml").write_text(settings)
    subprocess.run([sys.executable, "countdown/make_rows.py", "countdown/train.parquet"], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def server(example) -> str:
    """The address of a scorer with the page's task, and the faulty one."""
    command = [sys.executable, SERVER_PROGRAM, "-c", "countdown/both.yaml"]
    with serving(command, example, cwd=example) as (_, address):
        yield address


def ask(server: str, responses: list[str], question: dict) -> list:
    """Each response's score, or the error that the client raises."""

    async def scores():
        async with ScorerClient(server, retries=1, first_backoff_s=0.01) as client:
            return await asyncio.gather(
                *(client.score(response, question) for response in responses), return_exceptions=True
            )

    return asyncio.run(scores())


def test_the_rows_are_what_sampling_and_training_read(example, capsys):
    rows = read_rows([example / "countdown" / "train.parquet"])
    assert len(rows) == 100 and rows[0].data_source == "task:countdown"
    assert rows[0].question["task"] == "countdown" and len(rows[0].question["ground_truth"]["numbers"]) == 3
    inspect([str(example / "countdown" / "train.parquet")])
    assert "task:countdown" in capsys.readouterr().out


RESPONSES = {
    "Answer: 3 * 4 + 5": (1.0, "match"),
    "Answer: 1\nAnswer: 5+(4*3)": (1.0, "match"),
    "Answer: 3 + 4 * 5": (0.0, "mismatch"),
    "Answer: 17": (0.0, "mismatch"),
    "Answer: __import__('os').system('true')": (0.0, "mismatch"),
    "Answer: 3 * 4 + 5 / 0": (0.0, "mismatch"),
    "I do not know.": (0.0, "no_answer"),
}


def test_the_function_scores_responses_also_for_training(server):
    truth = {"numbers": [3, 4, 5], "target": 17}
    found = ask(server, list(RESPONSES), {"task": "countdown", "ground_truth": truth})
    assert [(score.score, score.outcome) for score in found] == list(RESPONSES.values())
    assert [score.pred for score in found[:2]] == ["3 * 4 + 5", "5+(4*3)"] and found[-1].pred is None

    async def reward():
        try:
            return await compute_score("task:countdown", "Answer: 3 * 4 + 5", truth, scorer=server)
        finally:
            await close_shared_clients()  # which live as long as a trainer's event loop

    result = asyncio.run(reward())
    assert (result["score"], result["acc"], result["outcome"]) == (1.0, 1, "match")


def test_a_faulty_function_is_never_a_reward(server):
    found = ask(server, ["raise", "two", "nan", "half", "loop"], {"task": "faulty", "ground_truth": {"x": 1}})
    for error, reason in zip(
        found, ["KeyError('absent')", "returned 2, not a score", "returned nan, not a score"], strict=False
    ):
        assert isinstance(error, ScorerUnavailable) and reason in str(error), error
    assert [(score.score, score.acc, score.outcome) for score in found[3:]] == [
        (0.5, 0, "partial"),
        (0.0, 0, "pred_timeout"),
    ]
    [error] = ask(server, ["x"], {"task": "chess", "ground_truth": "e4"})
    assert "this server has no task 'chess'" in str(error)


def test_any_json_is_a_ground_truth():
    for truth in ("27", 3.5, ["a", {"b": None}], {"numbers": [1, 2]}):
        assert scorer_question("task:x", truth) == {"task": "x", "ground_truth": truth}
    for truth in (float("nan"), b"\xff", {"x": {1, 2}}):
        with pytest.raises(UserError, match="which JSON cannot hold"):
            scorer_question("task:x", truth)
