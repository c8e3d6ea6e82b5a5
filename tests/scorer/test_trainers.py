"""The endpoints for OpenRLHF and slime, asked as the trainers' own code asks them.

The bodies are those of OpenRLHF 0.11.2 (openrlhf.utils.agent) and slime (slime.rollout.rm_hub).
"""

import json

import pytest

from tests.scorer.conftest import SHOP, Scorer, fenced

NAMES = "SELECT name FROM clients"
SQL = {"db_id": SHOP, "gold_sql": NAMES, "cmp_method": "bird"}
BROKEN = SQL | {"gold_sql": "SELECT absent FROM clients"}
# A prompt may hold what looks like an answer.
PROMPT = f"<|im_start|>user\nAnswer in this form: {fenced(NAMES)} or \\boxed{{4}}<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def both(start_scorer) -> Scorer:
    return start_scorer(math={"num_instances": 1})


def openrlhf_body(*rows: tuple[str, object]) -> dict:
    """What OpenRLHF sends for (response, label) of each row."""
    return {
        "query": [PROMPT + response for response, _ in rows],
        "prompts": [PROMPT] * len(rows),
        "labels": [label for _, label in rows],
    }


def test_openrlhf_gets_rewards_scores_and_logs(both: Scorer) -> None:
    rows = [
        (fenced(NAMES) + "<|im_end|>", json.dumps(SQL)),
        (fenced("SELECT id FROM clients") + "<|im_end|>\n", SQL),
        ("I do not know.</s>", json.dumps(SQL)),
        ("Answer: 4<|eot_id|><|end_of_text|>", "4"),
        (r"\boxed{5}", 4),
        (r"\boxed{13}", 13.0),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (fenced(NAMES), json.dumps(BROKEN)),
    ]
    reply = both.client.post("/v1/openrlhf", json=openrlhf_body(*rows))
    assert reply.status_code == 200, reply.text
    right = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0]
    logs = {"acc": right, "gold_error": [0.0] * 7 + [1.0]}
    assert reply.json() == {"rewards": right, "scores": right, "extra_logs": logs}


def slime_body(response: str, label: object) -> dict:
    return {"prompt": PROMPT, "response": response, "label": label}


def test_slime_gets_one_reward(both: Scorer) -> None:
    verdicts = {"match": (1.0, 1.0, 0.0), "mismatch": (0.0, 0.0, 0.0), "gold_error": (0.0, 0.0, 1.0)}
    for response, label, outcome in [
        (fenced(NAMES), SQL, "match"),
        ("Answer: 4<|im_end|>", "4", "match"),  # slime decodes with special tokens
        (r"\boxed{5}", "4", "mismatch"),
        (fenced(NAMES), json.dumps(BROKEN), "gold_error"),
    ]:
        reply = both.client.post("/v1/slime", json=slime_body(response, label)).json()
        assert reply == dict(zip(("score", "acc", "gold_error"), verdicts[outcome], strict=True)) | {"outcome": outcome}


REJECTED = [
    (None, ": names no database and no answer (it is of type NoneType: 'None')"),
    ("null", ": names no database and no answer (it is missing"),
    (0.5, ": names no database and no answer (it is of type float"),
    (str(SQL), ": names no database and no answer (it is an object, but not complete JSON"),
    (NAMES, ": names no database and no answer (it is SQL without its database"),
    ("{}", ".db_id: Field required"),
    (SQL | {"cmp_method": "x"}, ".cmp_method: Input should be 'bird'"),
    ({"ground_truth": 4}, ".ground_truth: Input should be a valid string"),
]


def test_a_label_that_names_no_database_and_no_answer_is_a_422_with_its_place(both: Scorer) -> None:
    for label, sentence in REJECTED:
        reply = both.client.post("/v1/openrlhf", json=openrlhf_body(("4", label)))
        assert reply.status_code == 422 and reply.json()["error"].startswith(f"labels.0{sentence}")
        reply = both.client.post("/v1/slime", json=slime_body("4", label))
        assert reply.status_code == 422 and reply.json()["error"].startswith(f"label{sentence}")


def test_a_body_that_does_not_fit_is_a_422(both: Scorer) -> None:
    body = openrlhf_body(("4", "4"), ("5", "5"))
    for change, sentence in [
        ({"labels": ["4"]}, "query, prompts and labels have 2, 2 and 1 entries"),
        ({"query": [PROMPT + "4", "the end of a prompt that was cut: 5"]}, "query.1 does not begin with prompts.1"),
        ({"query": None}, "query: Input should be a valid array"),
    ]:
        reply = both.client.post("/v1/openrlhf", json=body | change)
        assert reply.status_code == 422 and sentence in reply.json()["error"]
    assert both.client.post("/v1/slime", json={"response": "4"}).json() == {"error": "label: Field required"}
    reply = both.client.post("/v1/slime", json=slime_body("4", SQL | {"db_id": "absent.sqlite"}))
    assert reply.status_code == 404 and "absent.sqlite" in reply.json()["error"]
