"""The LSTM encoder and decoder (Sutskever et al. 2014; attention of Luong et al. 2015).

An LSTM (Hochreiter and Schmidhuber 1997) reads one word after the other, and updates a cell c and a
state h:

    i, f, o = σ(W x_t + U h_(t-1) + b)
    c_t = f · c_(t-1) + i · tanh(W' x_t + U' h_(t-1) + b')
    h_t = o · tanh(c_t)

Without input feeding, the decoder's LSTM does not depend on attention. So teacher forcing first
runs the LSTM over the whole target, then attention from all positions together. With input feeding,
the attentional hidden state is part of the next input, so positions are computed in a loop.

Padding comes after the real tokens, so the forward direction reads every real token before the
padding. The backward direction reads each sentence reversed within its own length. A decoder layer
starts from the encoder's summary of the sentence through an affine bridge: the state is tanh(W h)
as in Bahdanau et al. 2015 (appendix A.2.2), the cell W' h.

Shapes: B sentences, K hypotheses of each, N = B·K, S source positions, T target positions, D the
model size, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.config.model import LstmDecoderSettings, LstmEncoderSettings
from mtkit.models.attention import GLOBAL_ATTENTIONS
from mtkit.models.interfaces import Decoded, Decoder, Encoder, EncoderOutput, Memory, State
from mtkit.models.layers import Dropout, build_dropout, build_linear
from mtkit.models.layout import Layout
from mtkit.shapes import Hidden, SourceHidden, SourceMask


@dataclass(frozen=True)
class LstmMemory(Memory):
    """The encoder states, the keys of attention, and the initial state of the decoder."""

    states: SourceHidden
    keys: SourceHidden
    """What `GlobalAttention.keys` returns; the encoder states if there is no attention."""
    mask: SourceMask
    hidden: Float[Tensor, "B L D"]
    cell: Float[Tensor, "B L D"]


@dataclass(frozen=True)
class LstmState(State):
    """State and cell of each layer, and the last output of the decoder."""

    hidden: Float[Tensor, "N L D"]
    cell: Float[Tensor, "N L D"]
    feed: Float[Tensor, "N D"]
    """The last attentional hidden state, which input feeding adds to the next input."""


class LstmEncoderLayer(nn.Module):
    """One LSTM layer over the source, forward or in both directions (half the width each)."""

    def __init__(self, settings: LstmEncoderSettings, d_model: int) -> None:
        super().__init__()
        directions = 2 if settings.bidirectional else 1
        self.directions = nn.ModuleList(
            _lstm(d_model, d_model // directions) for _ in range(directions)
        )

    def forward(self, x: Hidden, mask: SourceMask) -> tuple[Hidden, Float[Tensor, "B D"]]:
        """Return outputs at every position, and those of each direction after its last token."""
        # Padded rows run twice as fast as torch's packed sequences. Outputs on padding are ignored.
        lengths = mask.sum(dim=1, keepdim=True)  # (B, 1)
        last = (lengths - 1).clamp(min=0)  # an empty row of a batch has no last token
        position = torch.arange(mask.shape[1], device=mask.device)
        # Selecting by `mirrored` reverses each sentence within its length, and padding stays where
        # it is. Selecting a second time restores the order.
        mirrored = torch.where(mask, last - position, position)  # (B, S)
        mirrored = mirrored.unsqueeze(-1)  # (B, S, 1)
        outputs: list[Tensor] = []
        finals: list[Tensor] = []
        for index, lstm in enumerate(self.directions):
            is_backward = index == 1
            inputs = x.gather(1, mirrored.expand_as(x)) if is_backward else x
            output, _ = _run(lstm, inputs)  # (B, S, D / directions)
            last_of_all = last.unsqueeze(-1).expand(-1, 1, output.shape[-1])
            finals.append(output.gather(1, last_of_all).squeeze(1))
            if is_backward:
                output = output.gather(1, mirrored.expand_as(output))
            outputs.append(output)
        return torch.cat(outputs, dim=-1), torch.cat(finals, dim=-1)


class LstmEncoder(Encoder):
    """A stack of LSTM layers."""

    def __init__(self, settings: LstmEncoderSettings, d_model: int) -> None:
        super().__init__()
        self.residual = settings.residual
        self.layers = nn.ModuleList(
            LstmEncoderLayer(settings, d_model) for _ in range(settings.layers)
        )
        self.dropout = Dropout(settings.dropout)
        self.embedding_dropout = build_dropout(settings.embedding_dropout, settings.dropout)

    def forward(self, x: Hidden, layout: Layout, *, attention: bool = False) -> EncoderOutput:
        x = layout.pad(self.embedding_dropout(x))  # (B, S, D)
        finals: list[Tensor] = []
        for index, layer in enumerate(self.layers):
            is_first = index == 0  # its input has its dropout already, and no residual sum
            inputs = x if is_first else self.dropout(x)
            output, final = layer(inputs, layout.mask)
            x = x + output if self.residual and not is_first else output
            finals.append(final)
        return EncoderOutput(layout.unpad(x), layout, tuple(finals))


class LstmDecoder(Decoder[LstmMemory, LstmState]):
    """A stack of LSTM layers; attention uses the states of the topmost layer."""

    def __init__(self, settings: LstmDecoderSettings, d_model: int) -> None:
        super().__init__()
        self.input_feeding = settings.input_feeding
        self.residual = settings.residual
        self.bridge = nn.ModuleList(
            build_linear(d_model, 2 * d_model) for _ in range(settings.layers)
        )
        # With input feeding, the first layer reads a word and an attentional vector.
        widths = [d_model] * settings.layers
        if settings.input_feeding:
            widths[0] = 2 * d_model
        self.layers = nn.ModuleList(_lstm(width, d_model) for width in widths)
        attention_class = GLOBAL_ATTENTIONS.get(settings.attention)  # None for "none"
        self.attention = None if attention_class is None else attention_class(d_model)
        self.dropout = Dropout(settings.dropout)
        self.embedding_dropout = build_dropout(settings.embedding_dropout, settings.dropout)

    def prepare_memory(self, encoded: EncoderOutput) -> LstmMemory:
        # A bridge computes both products, with W and with W'. Tanh keeps the state in (-1, 1), as
        # the LSTM does; a cell may be larger.
        starts = [bridge(encoded.summary(layer)) for layer, bridge in enumerate(self.bridge)]
        hidden, cell = torch.stack(starts, dim=1).chunk(2, dim=-1)  # (B, L, D) each
        states = encoded.layout.pad(encoded.states)
        keys = states if self.attention is None else self.attention.keys(states)
        return LstmMemory(
            states=states,
            keys=keys,
            mask=encoded.layout.mask,
            hidden=torch.tanh(hidden),
            cell=cell,
        )

    def start(self, memory: LstmMemory, beam: int) -> LstmState:
        hidden = memory.hidden.repeat_interleave(beam, dim=0)  # (N, L, D)
        cell = memory.cell.repeat_interleave(beam, dim=0)
        return LstmState(hidden, cell, torch.zeros_like(hidden[:, -1]))

    def decode(
        self, memory: LstmMemory, state: LstmState, x: Hidden, *, attention: bool = False
    ) -> Decoded:
        words = self.embedding_dropout(x)  # (N, T, D)
        # With input feeding, a position depends on the attention at the position before it.
        parts = torch.split(words, 1, dim=1) if self.input_feeding else [words]
        outputs: list[Tensor] = []
        weights: list[Tensor] = []
        for part in parts:
            x = part
            if self.input_feeding:  # [x_t; s̃_(t-1)]
                feed = state.feed.unsqueeze(1).to(x.dtype)
                x = torch.cat([x, feed], dim=-1)  # (N, 1, 2D)
            x, hidden, cell = self._run_layers(x, state)
            if self.attention is not None:  # h_t of the topmost layer becomes s̃_t
                x, weight = self.attention(x, memory.keys, memory.states, memory.mask)
                weights.append(weight)
            output = self.dropout(x)
            outputs.append(output)
            state = LstmState(hidden, cell, feed=output[:, -1])
        shown = None
        if attention and weights:
            shown = torch.cat(weights, dim=1)  # (N, T, S)
            shown = shown[:, None, None]  # one layer, one head: (N, 1, 1, T, S)
        return Decoded(torch.cat(outputs, dim=1), state, shown)

    def _run_layers(
        self, x: Float[Tensor, "N T I"], state: LstmState
    ) -> tuple[Hidden, Float[Tensor, "N L D"], Float[Tensor, "N L D"]]:
        """Return the outputs of the topmost layer, and state and cell of every layer.

        The input of the first layer has I = D or, with input feeding, I = 2D dimensions.
        """
        hiddens: list[Tensor] = []
        cells: list[Tensor] = []
        for index, lstm in enumerate(self.layers):
            is_first = index == 0  # its input has its dropout already, and may be twice as wide
            # torch's LSTM wants a dimension for layers and directions in front: (1, N, D).
            hidden = state.hidden[:, index].unsqueeze(0).contiguous()
            cell = state.cell[:, index].unsqueeze(0).contiguous()
            inputs = x if is_first else self.dropout(x)
            output, (hidden, cell) = _run(lstm, inputs, hidden, cell)
            x = x + output if self.residual and not is_first else output  # (N, T, D)
            hiddens.append(hidden[0])
            cells.append(cell[0])
        return x, torch.stack(hiddens, dim=1), torch.stack(cells, dim=1)


def _lstm(inputs: int, outputs: int) -> nn.LSTM:
    """Return one LSTM layer with orthogonal recurrent weights and an open forget gate.

    Orthogonal weights preserve the norm over many steps (Saxe et al. 2014). An open gate lets the
    gradient pass through the cell (Jozefowicz et al. 2015).
    """
    lstm = nn.LSTM(inputs, outputs, batch_first=True)
    nn.init.xavier_uniform_(cast(Tensor, lstm.weight_ih_l0))
    nn.init.orthogonal_(cast(Tensor, lstm.weight_hh_l0))
    bias = nn.init.zeros_(cast(Tensor, lstm.bias_ih_l0))
    nn.init.zeros_(cast(Tensor, lstm.bias_hh_l0))
    with torch.no_grad():
        bias[outputs : 2 * outputs] = 1.0  # gates are stored as input, forget, cell, output
    return lstm


def _run(
    lstm: nn.Module, x: Hidden, *before: Float[Tensor, "1 N O"]
) -> tuple[Float[Tensor, "N T O"], tuple[Float[Tensor, "1 N O"], Float[Tensor, "1 N O"]]]:
    """Return the outputs at every position, and state and cell after the last position.

    `before`: state and cell before the first position; without them, both are 0. O is D, or D / 2
    in each direction of an encoder.

    A CPU computes this in the precision of the weights, even under autocast: in training, oneDNN's
    bfloat16 LSTM gives different bits in different processes (oneDNN 3.12 on CPUs with AMX). CPUs
    that have only AVX2 do not support bfloat16, and no CPU supports float16.
    """
    dtype = next(lstm.parameters()).dtype
    states = tuple(state.to(dtype) for state in before) or None  # None: zeros
    with torch.autocast("cpu", enabled=False):
        return cast(tuple[Tensor, tuple[Tensor, Tensor]], lstm(x.to(dtype), states))
