"""A key-value cache that appends in place.

transformers' DynamicLayer concatenates, and so copies the whole cache, for every token.
"""

import torch
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer

_GROWTH = 1.5


class AppendableLayer(DynamicLayer):
    """A DynamicLayer whose keys and values are views of a buffer with spare room: [rows, heads, length, head size]."""

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        super().lazy_initialization(key_states, value_states)
        self._key_buffer = key_states[:, :, :0]
        self._value_buffer = value_states[:, :, :0]

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args, **kwargs):
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        new_length = length + key_states.shape[-2]
        if new_length > self._key_buffer.shape[-2]:
            room = new_length if length == 0 else int(new_length * _GROWTH)
            self._key_buffer = _enlarged(self._key_buffer, length, room)
            self._value_buffer = _enlarged(self._value_buffer, length, room)
        self._key_buffer[:, :, length:new_length] = key_states
        self._value_buffer[:, :, length:new_length] = value_states
        self._show(new_length)
        return self.keys, self.values

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Keep the rows `beam_idx` [new rows], in that order; a row may be repeated or left out."""
        length = self.get_seq_length()
        self._key_buffer = self._key_buffer[beam_idx]
        self._value_buffer = self._value_buffer[beam_idx]
        self._show(length)

    def _show(self, length: int) -> None:
        self.keys = self._key_buffer[:, :, :length]
        self.values = self._value_buffer[:, :, :length]


def _enlarged(buffer: torch.Tensor, length: int, room: int) -> torch.Tensor:
    rows, heads, _, head_size = buffer.shape
    enlarged = buffer.new_empty(rows, heads, room, head_size)
    enlarged[:, :, :length] = buffer[:, :, :length]
    return enlarged


def appendable_cache(config: PreTrainedConfig) -> DynamicCache:
    """The cache that transformers makes for a model, its plain layers replaced by appendable ones.

    Layers of other kinds (sliding window, linear attention) stay as they are. `reorder_cache`, made for beam search, is
    the one way to select rows that all kinds have.
    """
    cache = DynamicCache(config=config)
    cache.layers = [AppendableLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache
