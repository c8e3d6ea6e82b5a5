"""The settings that may change when a run is resumed (verl/dph/training/resume.py compares the others)."""

import fnmatch
from collections.abc import Sequence

from rl.configuration.programs import PROGRAMS
from rl.configuration.setting import settings_of

_SECTIONS = PROGRAMS["dph_trainer"]

# How an update is cut: not with a loss that chooses tokens within a micro-batch (resume.py).
MICRO_BATCHES = ("*micro_batch_size*", "*max_token_len_per_gpu", "*use_dynamic_bsz")
# Our settings with may_change, and verl's settings with these names. Every other setting must be what it was.
MAY_CHANGE = (
    *(setting.key for setting in settings_of(section for section in _SECTIONS if section.may_change)),
    # Memory and speed, with the same gradient.
    *(*MICRO_BATCHES, "*ulysses_sequence_parallel_size"),
    *("*offload*", "*checkpointing*", "*chunk*", "*torch_compile", "*fused_kernel*", "*use_remove_padding"),
    *("*use_liger", "*attn_implementation", "*prefetch", "*reshard_after_forward", "*.turbo_config.*"),
    *("*use_shm", "*gradient_accumulation", "*nccl_timeout", "*filter_overlong_prompts_workers"),
    # Of the frozen reference only: a checkpoint's shards cannot be loaded into another mesh. -1 and the number of ranks
    # are one mesh and count as two.
    "*.ref.fsdp_config.fsdp_size",
    # Not the loader's of training data: torchdata refuses the state of another number of workers.
    *("*.agent.num_workers", "reward*.num_workers"),
    # Machines. The number of ranks is compared with a checkpoint's files.
    *("*nnodes", "*n_gpus_per_node", "trainer.device", "ray_kwargs.*", "transfer_queue.*", "trainer.ray_wait_*"),
    # How a rollout engine, also of a reward model, spends memory and time. Another engine would draw other samples.
    *(f"*rollout.{name}" for name in ("mode", "enforce_eager", "cudagraph_*", "free_cache_engine", "load_format")),
    *(f"*rollout.{name}" for name in ("*_parallel_size", "max_num_*", "enable_chunked_prefill", "layered_summon")),
    *(f"*rollout.{name}" for name in ("enable_prefix_caching", "disable_log_stats", "gpu_memory_utilization")),
    *(f"*rollout.{name}" for name in ("scheduling_policy", "multi_stage_wake_up")),
    *(f"*rollout.{name}" for name in ("skip_tokenizer_init", "checkpoint_engine.*", "disaggregation.*", "router_*")),
    # What is logged, validated or written.
    *("*.checkpoint.*", "*profiler.*", "*.calculate_entropy", "*.trace.*", "*.prometheus.*"),
    *("*.val_kwargs.*", "*.moe_load_balance_metrics_interval", "data.val_*", "data.validation_shuffle"),
    *(f"trainer.{name}" for name in ("project_name", "experiment_name", "logger", "log_val_*")),
    *(f"trainer.{name}" for name in ("*_dir", "*_freq", "*_ckpt_to_keep", "val_before_train", "val_only")),
    *(f"trainer.{name}" for name in ("esi_redundant_time", "checkpoint_callback_class", "del_local_ckpt_after_load")),
    # Where a run stops, and how it goes on. A schedule that spans the run's steps bends to another number.
    *("trainer.total_epochs", "trainer.total_training_steps", "trainer.resume_mode", "trainer.resume_from_path"),
    *("*sandbox_fusion.url", "*sandbox_fusion.max_concurrent"),
    # Compared by content.
    *("*model.path", "*model.tokenizer_path", "*.engine_kwargs.vllm.tokenizer", "data.train_files"),
    # Completed by verl, or copies of other settings.
    *("*optim.total_training_steps", "data.gen_batch_size", "*.rollout_n", "*._target_"),
    # Of earlier versions: nothing reads them now.
    *("data.sft_refinement_failures", "trainer.tags"),
)


def among(patterns: Sequence[str], key: str) -> bool:
    """Whether one of the patterns (fnmatch) matches a setting's full name."""
    return any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)
