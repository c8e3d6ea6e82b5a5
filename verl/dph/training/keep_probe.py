"""Keep-rate probe: which prompts of a fixed sample are solved at each validation.

Their responses are generated and scored as in verl's validation. A prompt is solved when at least one of n responses is
correct. `dph/keep_rate` is the share of solved prompts among the stored ones of solved_files, by default those that the
initial policy mastered, and `dph/newly_solved` the share among those without a correct pre-sample (D_exp). The report's
keep rate (rl.evaluation.analysis.prompt_metrics) is of every prompt that was solved at least once.
The initial policy's own keep rate may be below 1, because D_pef prompts were chosen by samples that happened to be
correct; trainer.val_before_train measures it.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.trainer.ppo.utils import create_rl_dataset
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn

from rl.common.errors import UserError
from rl.data.rows import SAMPLES
from rl.data.split import BASE_CORRECT
from verl.dph.cpu.agent_loop import SEED
from verl.dph.training.config import KEEP_RATE, NEWLY_SOLVED
from verl.dph.training.rollout_ledger import scored
from verl.dph.training.rollout_metrics import response_of

logger = logging.getLogger(__name__)

KEEP_PROMPTS, UNJUDGED = "dph/keep_prompts", "dph/keep_unjudged"


class KeepProbe:
    """The prompts of the probe, drawn once with data.sft_seed: the same in every validation and after a resume.

    hf servers also use the same random numbers every time, so a difference between two validations is due to the
    policy, and the probe does not change the samples of training.

    Args:
        config: verl's trainer settings; read are trainer.keep_probe, data.sft_seed and what the datasets need.
        tokenizer, processor: the model's, for verl's datasets.
        stored: ids of the D_pef store; only these count as solved. None: all of solved_files.

    Raises:
        UserError: no prompt is left.
    """

    def __init__(self, config: DictConfig, tokenizer: Any, processor: Any, stored: set[int] | None):
        self.config, self.settings = config, config.trainer.keep_probe
        solved = self._dataset(self.settings.solved_files, tokenizer, processor)
        unsolved = self._dataset(self.settings.unsolved_files, tokenizer, processor)
        pairs = zip(solved.dataframe["id"], solved.dataframe[BASE_CORRECT], strict=True)
        kept = [row for row, (id, correct) in enumerate(pairs) if correct > 0 and (stored is None or id in stored)]
        if not kept:
            raise UserError(
                f"trainer.keep_probe.solved_files={self.settings.solved_files} holds no prompt of the D_pef store "
                f"{config.data.sft_pt} that was solved before: give the train_correct.parquet that belongs to it."
            )
        new = [row for row, correct in enumerate(unsolved.dataframe[BASE_CORRECT]) if correct == 0]
        self.items = {
            KEEP_RATE: [solved[row] for row in self._drawn(kept, 0)],
            NEWLY_SOLVED: [unsolved[row] for row in self._drawn(new, 1)],
        }
        logger.info(
            "keep-rate probe: %d of %d prompts the initial policy solved, %d of %d it did not, %d samples each",
            len(self.items[KEEP_RATE]),
            len(kept),
            len(self.items[NEWLY_SOLVED]),
            len(new),
            self.settings.n,
        )

    def _dataset(self, files: str | Sequence[str], tokenizer: Any, processor: Any) -> Any:
        return create_rl_dataset(files, self.config.data, tokenizer, processor, is_train=False)

    def _drawn(self, rows: list[int], part: int) -> list[int]:
        """At most trainer.keep_probe.prompts of the rows, in their order."""
        random = np.random.default_rng([self.config.data.sft_seed, part])
        return sorted(random.permutation(rows)[: self.settings.prompts].tolist())

    def measure(self, trainer) -> dict[str, float]:
        """Generate and score.

        Args:
            trainer: a DPHTrainer, whose rollout servers hold the current policy.

        Returns:
            dph/keep_rate and dph/newly_solved, each only if it has judged prompts; dph/keep_prompts, the number of
            prompts of the keep rate; dph/keep_unjudged, the number of prompts of either that are left out, because
            their reference cannot be evaluated or rollouts failed (trainer.max_failed_rollouts): with fewer samples a
            prompt would be solved less often.
        """
        rows = [(name, item) for name, items in self.items.items() for item in items]
        names = [f"keep{number:06d}" for number in range(len(rows))]
        batch = self._batch([item for _, item in rows], names, trainer.global_steps)
        tags = [{"is_prompt": True, "status": "pending", "global_steps": trainer.global_steps} for _ in names]
        tq.kv_batch_put(keys=names, partition_id="val", tags=tags)
        trainer.agent_loop_manager.generate_sequences(batch)
        responses, _ = trainer.replay_buffer.sample(
            global_steps=trainer.global_steps, partition_id="val", batch_size=len(names), samples=self.settings.n
        )
        try:
            if trainer.reward_loop_manager.reward_loop_worker_handles is None:  # a reward model on the same devices
                trainer.checkpoint_manager.sleep_replicas()
                responses = trainer._compute_reward_colocate(responses)
                trainer.checkpoint_manager.update_weights()
            solved: dict[str, bool] = {}
            scores = scored(responses)
            judged = Counter(score.prompt for score in scores if not score.info.get("gold_error"))
            for score in scores:
                if judged[score.prompt] == self.settings.n:
                    correct = response_of(score.data_source, score.reward, score.info).correct
                    solved[score.prompt] = solved.get(score.prompt, False) or correct
        finally:
            tq.kv_clear(keys=responses.keys, partition_id=responses.partition_id)
        of: dict[str, list[bool]] = {}
        for uid, (name, _) in zip(names, rows, strict=True):
            if uid in solved:
                of.setdefault(name, []).append(solved[uid])
        counts = {KEEP_PROMPTS: len(of.get(KEEP_RATE, [])), UNJUDGED: len(names) - len(solved)}
        return {name: float(np.mean(found)) for name, found in of.items()} | counts

    def _batch(self, items: list[dict], names: list[str], step: int) -> TensorDict:
        """The prompts as verl's agent loops take them."""
        shared = set.intersection(*map(set, items))  # the files may have different columns
        columns = collate_fn([{key: item[key] for key in item if key in shared} for item in items])
        columns["uid"] = np.array(names, dtype=object)
        columns[SAMPLES] = np.array([int(self.settings.n)] * len(items), dtype=object)
        columns[SEED] = np.array([int(self.config.data.sft_seed)] * len(items), dtype=object)
        batch = tu.get_tensordict(columns)
        tu.assign_non_tensor_data(batch, "global_steps", step)
        tu.assign_non_tensor_data(batch, "validate", True)
        return batch
