"""The environment variables that the launch scripts read before version 0.1.0, and the keys in their place.

A run that finds one stops with a sentence (variables.py). For one release.
"""

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
# Variables whose key is their name in lower case, by the key's section.
_OF_SECTION = {
    "launch": "BASELINE_FILES EXPLORED OVERLONG_BUFFER SAMPLES SCORER_CONFIG TRAIN_CORRECT TRAIN_UNSOLVED TRAIN_WRONG",
    "data": "MAX_PROMPT_LENGTH MAX_RESPONSE_LENGTH SFT_BATCH_SIZE SFT_COVERAGE SFT_RESPONSES SFT_RESPONSES_PER_PROMPT "
    "TRAIN_BATCH_SIZE",
    "trainer": "LOGGER PROJECT_NAME SAVE_FREQ TEST_FREQ",
    "algorithm": "PKPO_K SUCCESS_CAP W_REINFORCE_LAMBDA",
    _ACTOR: "ENTROPY_COEFF POLICY_LOSS_COEFF SFT_LOSS_COEFF STRATEGY",
    f"{_ACTOR}.policy_loss": "CLIP_COV_RATIO KL_COV_RATIO",
    _ROLLOUT: "GPU_MEMORY_UTILIZATION TEMPERATURE TOP_P",
}
REPLACED_BY = {name: f"{of}.{name.lower()}" for of, names in _OF_SECTION.items() for name in names.split()} | {
    "ALPHA": f"{_ACTOR}.alpha_coeff",
    "CHORD_FINAL_RATIO": f"{_ACTOR}.sft_loss_control.final_ratio",
    "CHORD_WARMUP_STEPS": f"{_ACTOR}.sft_loss_control.warmup_steps",
    "CLIP_COV_CLIP": f"{_ACTOR}.clip_ratio_high",
    "CLIP_COV_HIGH": f"{_ACTOR}.policy_loss.clip_cov_ub",
    "CLIP_COV_LOW": f"{_ACTOR}.policy_loss.clip_cov_lb",
    "CLIP_HIGH": f"{_ACTOR}.clip_ratio_high",
    "CLUSTER_WAIT_S": "launch.wait_seconds",
    "DAPO_METRIC": "algorithm.filter_groups.metric",
    "DEMO_DIR": "launch.folder",
    "EPOCHS": "trainer.total_epochs",
    "FOREIGN_PT": "launch.foreign_store",
    "GRPO_CLIP_HIGH": f"{_ACTOR}.clip_ratio_high",
    "KEEP_CHECKPOINTS": "trainer.max_actor_ckpt_to_keep",
    "KL_COV_COEF": f"{_ACTOR}.policy_loss.ppo_kl_coef",
    "LEARNING_RATE": f"{_ACTOR}.optim.lr",
    "MAX_TOKENS_PER_GPU": f"{_ACTOR}.ppo_max_token_len_per_gpu",
    "MINI_BATCH_SIZE": f"{_ACTOR}.ppo_mini_batch_size",
    "NODE_ADDR": "launch.node_address",
    "OFFLOAD": f"{_ACTOR}.fsdp_config.param_offload",
    "RAY_START_ARGS": "launch.ray_arguments",
    "ROLLOUT_N": f"{_ROLLOUT}.n",
    "SAMPLES_PER_PROMPT": "presample.n",
    "SETTINGS": "experiment",
    "SFT_NORMALIZATION": f"{_ACTOR}.sft_loss_normalization",
    "TENSOR_PARALLEL": f"{_ROLLOUT}.tensor_model_parallel_size",
    "TOTAL_STEPS": "trainer.total_training_steps",
    "VAL_N": f"{_ROLLOUT}.val_kwargs.n",
    "VAL_TEMPERATURE": f"{_ROLLOUT}.val_kwargs.temperature",
}
