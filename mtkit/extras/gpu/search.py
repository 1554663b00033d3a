"""Search on a GPU: a step of the decoder is a CUDA graph, for few shapes.

A step of search runs hundreds of small kernels, and no two steps have the same shapes: sentences
leave the batch, and hypotheses grow. So the inputs of a step are padded to few shapes, and keys and
values are written to a cache with room for later symbols. The hypotheses are the same.

Shapes: B sentences, N hypotheses, S source positions, P target positions, D the model size, H heads
of size Dh, J the keys and the values of all layers in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.models.acceleration import Launcher
from mtkit.models.attention import KeyValue
from mtkit.models.interfaces import Decoded, EncoderOutput, Memory, State
from mtkit.models.layout import MASKED_BIAS, Bias, Layout, mask_to_bias
from mtkit.models.transformer import TransformerDecoder, TransformerMemory, TransformerState
from mtkit.shapes import Hidden

MIN_POSITIONS = 16
"""Smallest number of source or target positions of a step; others are 2, 4, 8, … times as many."""


@dataclass(frozen=True)
class SearchMemory(Memory):
    """A `TransformerMemory` of two tensors, which are selected and padded by few kernels."""

    keys_values: Float[Tensor, "B J H S Dh"]
    bias: Bias

    @property
    def layers(self) -> tuple[KeyValue, ...]:
        """The keys and values of each layer."""
        return _unstack(self.keys_values)


@dataclass(frozen=True)
class SearchState(State):
    """A `TransformerState` of one tensor, with room for later symbols."""

    keys_values: Float[Tensor, "N J H P Dh"]
    """Only the first `length` positions are known."""
    length: int
    """The number of symbols so far."""

    @property
    def layers(self) -> tuple[KeyValue, ...]:
        """The keys and values of each layer, of the symbols so far."""
        return _unstack(self.keys_values.narrow(3, 0, self.length))


@dataclass(frozen=True)
class SearchStep:
    """The inputs of a step."""

    source: Float[Tensor, "B J H S Dh"]
    """Keys and values of the sources."""
    source_bias: Bias
    cache: Float[Tensor, "N J H P Dh"]
    """Keys and values of the symbols so far."""
    x: Float[Tensor, "N 1 D"]
    """The embedded symbols."""
    place: Int[Tensor, " 1"]
    """The position of the symbols."""


@dataclass(frozen=True)
class CachedKeyValue(KeyValue):
    """Keys and values of a layer, with room at the place of the next ones."""

    place: Int[Tensor, " 1"]

    def append(self, later: KeyValue) -> KeyValue:
        self.key.index_copy_(2, self.place, later.key)
        self.value.index_copy_(2, self.place, later.value)
        return self


class SearchDecoder(TransformerDecoder):
    """A decoder whose steps have few shapes; for evaluation only.

    As in `EncoderDecoder`, memory and state are Any: a decoder gets only those that it has made.
    """

    launchers: defaultdict[int, Launcher]
    """What calls a step, for each thread that searches."""

    def prepare_memory(self, encoded: EncoderOutput) -> Any:
        memory = super().prepare_memory(encoded)
        parts: list[Tensor] = []
        for layer in memory.layers:
            parts.append(layer.key)
            parts.append(layer.value)
        keys_values = torch.stack(parts, dim=1)
        return SearchMemory(keys_values, cast(Tensor, memory.bias))

    def start(self, memory: Any, beam: int) -> Any:
        nothing = memory.keys_values.narrow(3, 0, 0)
        rows = nothing.repeat_interleave(beam, dim=0)
        return SearchState(rows, length=0)

    def decode(self, memory: Any, state: Any, x: Hidden, *, attention: bool = False) -> Decoded:
        # Teacher forcing reads several symbols, and alignments need the weights of attention. After
        # either, the state is a TransformerState, and stays one.
        if attention or x.shape[1] > 1 or isinstance(state, TransformerState):
            return super().decode(memory, state, x, attention=attention)
        hypotheses = len(x)
        sentences = len(memory.keys_values)
        beam = hypotheses // sentences
        padded_sentences = _round_up(sentences)
        padded_hypotheses = beam * padded_sentences
        source_length = _round_up(memory.keys_values.shape[3], MIN_POSITIONS)
        target_length = _round_up(state.length + 1, MIN_POSITIONS)
        x = x + self.positions(state.length, 1)
        step = SearchStep(
            source=_pad(memory.keys_values, padded_sentences, source_length),
            source_bias=_pad(memory.bias, padded_sentences, source_length, MASKED_BIAS),
            cache=_pad(state.keys_values, padded_hypotheses, target_length),
            x=F.pad(x, (0, 0, 0, 0, 0, padded_hypotheses - hypotheses)),
            place=torch.full((1,), state.length, device=x.device),
        )
        launcher = self.launchers[get_ident()]
        hidden, cache = launcher.call("step", self.step, step)
        longer = SearchState(cache, state.length + 1)
        return Decoded(hidden[:hypotheses], longer, None)

    def step(self, inputs: SearchStep) -> tuple[Float[Tensor, "N 1 D"], Tensor]:
        """Return the hidden states, and the cache, to which the keys and values are written."""
        room = inputs.cache.shape[3]
        places = torch.arange(room, device=inputs.x.device)
        is_written = places <= inputs.place
        bias = mask_to_bias(is_written).unsqueeze(0)  # (1, P)
        caches: list[KeyValue] = []
        for layer in _unstack(inputs.cache):
            cache = CachedKeyValue(layer.key, layer.value, inputs.place)
            caches.append(cache)
        state = TransformerState(tuple(caches))
        memory = TransformerMemory(_unstack(inputs.source), inputs.source_bias)
        layout = Layout.full(inputs.x)
        decoded = self._run(memory, state, inputs.x, bias, layout)
        return decoded.hidden, inputs.cache


def accelerate_search(model: nn.Module, new_launcher: Callable[[], Launcher]) -> None:
    """Let all Transformer decoders in `model`, which may be an ensemble, search fast."""
    for module in model.modules():
        if isinstance(module, TransformerDecoder):
            module.__class__ = SearchDecoder
            cast(SearchDecoder, module).launchers = defaultdict(new_launcher)


def _unstack(keys_values: Tensor) -> tuple[KeyValue, ...]:
    """Return the keys and values of each layer, which dimension 1 has in turn."""
    parts = keys_values.unbind(1)
    layers = zip(parts[::2], parts[1::2], strict=True)
    return tuple(KeyValue(key, value) for key, value in layers)


def _round_up(size: int, smallest: int = 1) -> int:
    """Return the smallest of 1, 2, 4, … times `smallest` that is at least `size`."""
    rounded = smallest
    while rounded < size:
        rounded *= 2
    return rounded


def _pad(x: Tensor, rows: int, positions: int, value: float = 0.0) -> Tensor:
    """Return `x` with so many rows and positions, which are dimensions 0 and 3."""
    shape = (rows, *x.shape[1:3], positions, *x.shape[4:])
    if shape == x.shape:
        return x
    padded = x.new_full(shape, value)
    place = padded[: len(x)].narrow(3, 0, x.shape[3])
    place.copy_(x)
    return padded
