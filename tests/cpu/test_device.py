"""The CPU as verl's device module."""

import torch

from verl.dph.cpu import device


def test_empty_cache_gives_pages_back_if_there_are_many():
    """Blocks of 64 kB are of the heap. The last one is at its top, so that it does not shrink by itself."""
    blocks = [torch.ones(1 << 14) for _ in range(4000)]
    device.empty_cache()  # what earlier tests have left
    held, freed = device.memory_allocated(), 3999 << 16
    device.empty_cache()
    assert device.memory_allocated() > held - 0.1 * freed, "too little to give back"
    del blocks[:-1]
    assert device.free_heap() > freed and device.memory_allocated() > held - 0.1 * freed
    device.empty_cache()
    assert device.memory_allocated() < held - 0.9 * freed
    assert blocks[0].sum() == 1 << 14
