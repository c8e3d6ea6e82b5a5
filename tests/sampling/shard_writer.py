"""One rank of test_checkpoint.py: a model sharded by FSDP2 and saved by verl's checkpoint manager, in its own process.

python shard_writer.py RANK RANKS MODEL CHECKPOINT MEETING_FILE
"""

import sys

import torch
import torch.distributed as dist
from omegaconf import OmegaConf
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager


def main(rank: int, ranks: int, model: str, checkpoint: str, meeting_file: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting_file}", rank=rank, world_size=ranks)
    policy = AutoModelForCausalLM.from_pretrained(model)
    fully_shard(policy, mesh=init_device_mesh("cpu", (ranks,), mesh_dim_names=("fsdp",)))
    contents = OmegaConf.create({"save_contents": ["model"], "load_contents": ["model"]})
    manager = FSDPCheckpointManager(
        policy, processing_class=AutoTokenizer.from_pretrained(model), checkpoint_config=contents
    )
    manager.save_checkpoint(checkpoint, global_step=3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
