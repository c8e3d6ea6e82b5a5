import asyncio
import shutil

import pytest
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.utils import hf_tokenizer
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from rl.common.errors import UserError
from rl.configuration.compose import compose
from rl.data.rows import PromptFiles, read_rows
from tests.sample_files import write_parquet
from tests.sampling.conftest import CHAT_TEMPLATE, shop_row
from tests.tiny_run import TRUTH
from verl.dph.sampling.job import chat_template, stop_ids, tokenized_prompts, warn_if_dated


def test_rows_keep_their_order_over_files(tmp_path):
    files = [
        write_parquet(tmp_path / "a.parquet", shop_row(3), shop_row(1)),
        write_parquet(tmp_path / "b.parquet", shop_row(2)),
    ]
    rows = read_rows(files)
    assert [r.id for r in rows] == [3, 1, 2]
    assert rows[2].question == TRUTH
    assert rows[2].messages == [{"role": "user", "content": "prices are there"}]
    write_parquet(files[1], shop_row(1))
    with pytest.raises(UserError, match=r"b.parquet row 0: id 1 is also in .*a.parquet row 1"):
        read_rows(files)


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"id": "x"}, "row 0: id is 'x', not a whole number"),
        ({"prompt": "which"}, "row 0: prompt is 'which', not a list of messages"),
        ({"reward_model": {"style": "rule"}}, "row 0: reward_model is .* not an object with a ground_truth"),
        ({"reward_model": {"ground_truth": "42"}}, "row 0: reward_model.ground_truth is str"),
    ],
)
def test_a_malformed_row_is_named_with_file_and_key(tmp_path, changes, named):
    file = write_parquet(tmp_path / "train.parquet", shop_row(1, **changes))
    with pytest.raises(UserError, match=f"{file} {named}"):
        read_rows([file])


# Adds a system prompt to messages that have no system prompt, as SmolLM2's and Qwen's do.
WITH_SYSTEM_PROMPT = "{% if messages[0]['role'] != 'system' %}<user>are there<eos>{% endif %}" + CHAT_TEMPLATE


@pytest.mark.filterwarnings("ignore:tokenizer.pad_token_id is None")
@pytest.mark.parametrize(
    ("changes", "prompt"),
    [
        ({}, "<user> which names prices <answer>"),
        ({"chat_template": WITH_SYSTEM_PROMPT}, "<user> are there <eos> <user> which names prices <answer>"),
        ({"pad_token": None}, "<user> which names prices <answer>"),
    ],
)
def test_prompts_are_tokenized_as_by_verls_agent_loop(changes, prompt, model_folder, train_parquet, tmp_path):
    """The token ids that verl's own SingleTurnAgentLoop sends to the server are ours."""
    folder, sent = shutil.copytree(model_folder, tmp_path / "model"), []
    changed = AutoTokenizer.from_pretrained(folder)
    for name, value in changes.items():
        setattr(changed, name, value)
    changed.save_pretrained(folder)
    lengths = ["data.max_prompt_length=64", "data.max_response_length=8"]
    config = compose("presample", [f"actor_rollout_ref.model.path={folder}", *lengths])
    tokenizer, ours = tokenized_prompts(config, [train_parquet])
    # verl's responses are padded with it, and end with the end token all the same.
    assert tokenizer.pad_token_id == (1 if "pad_token" in changes else 0)
    assert stop_ids(config.actor_rollout_ref.model, tokenizer) == {1}

    class RecordingServer:
        async def generate(self, request_id, *, prompt_ids, **kwargs):
            sent.append(prompt_ids)
            return TokenOutput(token_ids=[1], log_probs=[0.0], stop_reason="completed", extra_fields={})

    async def scenario():
        loop = SingleTurnAgentLoop(
            trainer_config=DictConfigWrap(config),
            server_manager=RecordingServer(),
            tokenizer=hf_tokenizer(str(folder)),
            processor=None,
            dataset_cls=RLHFDataset,
            data_config=DictConfigWrap(config.data),
            hf_model_type="llama",
        )
        for row in read_rows([train_parquet]):
            await loop.run({}, raw_prompt=row.messages)

    asyncio.run(scenario())
    assert [prompt.token_ids.tolist() for prompt in ours] == sent
    assert tokenizer.decode(sent[0]) == prompt


# As Llama 3.2's template, which writes today's date.
DATED = (
    "{% if date_string is not defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}{{ date_string }}"
)


@pytest.mark.parametrize("program", ["dph_trainer", "presample", "evaluate"])
def test_a_prompt_has_the_same_date_every_day(program, model_folder):
    """Else store, training and evaluation on other days have other prompts. Older files do not name the date."""
    config = compose(program, [f"actor_rollout_ref.model.path={model_folder}"])
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.chat_template = DATED
    settings = OmegaConf.to_container(config.data.apply_chat_template_kwargs)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False, **settings)
    assert prompt == "26 Jul 2024" and not warn_if_dated(tokenizer, "samples.jsonl")
    assert chat_template(config) == "{}"


def test_overlong_prompts_are_left_out_and_a_file_that_changed_is_not_sampled(tmp_path, builder):
    long = shop_row(2, prompt=[{"role": "user", "content": "names " * 20}])
    prompts = PromptFiles([write_parquet(tmp_path / "train.parquet", shop_row(1), long, shop_row(3))], builder, 5)
    assert (prompts.rows, len(prompts), prompts.overlong) == (3, 2, {2: 22})
    for _ in range(2):
        assert [(prompt.id, len(prompt.token_ids)) for prompt in prompts] == [(1, 5), (3, 5)]
    write_parquet(tmp_path / "train.parquet", shop_row(1), shop_row(3))
    with pytest.raises(UserError, match="train.parquet changed during sampling"):
        list(prompts)
