"""The halves of LSTM sequence to sequence (Sutskever et al. 2014; attention of Luong et al. 2015).

An LSTM reads one word after the other (Hochreiter and Schmidhuber 1997). What it carries on is a
cell, which gates open and close, and the state h that it shows of it:

    i, f, o = σ(W x_t + U h_(t-1) + b)
    c_t = f · c_(t-1) + i · tanh(W' x_t + U' h_(t-1) + b')
    h_t = o · tanh(c_t)

Without input feeding the decoder's LSTM does not depend on attention, so teacher forcing runs it
over the whole target at once, and attends from all target positions together. With input feeding
the attentional hidden state of a step is part of the next step's input, and steps are a loop.
Padding follows the real tokens: the forward direction never sees it before them, and the backward
direction reads each sentence reversed within its own length, so that it never sees it either. A
decoder layer starts from the encoder's summary of the sentence through an affine bridge: the state
as tanh(W h), as in Bahdanau et al. 2015 (appendix A.2.2), the cell as W' h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.config.model import LstmDecoderSettings, LstmEncoderSettings
from mtkit.models.attention import RECURRENT
from mtkit.models.interfaces import Decoded, Decoder, Encoded, Encoder, Memory, State
from mtkit.models.layers import Dropout, embedding_dropout, linear
from mtkit.terms import Hidden, SourceHidden, SourceMask


@dataclass(frozen=True)
class RecurrentMemory(Memory):
    """The encoded sentences, what attention made of them, and what the decoder starts from."""

    states: SourceHidden
    keys: SourceHidden
    mask: SourceMask
    hidden: Float[Tensor, "B L D"]
    cell: Float[Tensor, "B L D"]


@dataclass(frozen=True)
class RecurrentState(State):
    """What each layer carries on, and the last attentional hidden state (for input feeding)."""

    hidden: Float[Tensor, "N L D"]
    cell: Float[Tensor, "N L D"]
    feed: Float[Tensor, "N D"]


class EncoderLayer(nn.Module):
    """One LSTM layer over the source, forwards or in both directions (half the width each)."""

    def __init__(self, settings: LstmEncoderSettings, d_model: int) -> None:
        super().__init__()
        directions = 2 if settings.bidirectional else 1
        self.directions = nn.ModuleList(
            _lstm(d_model, d_model // directions) for _ in range(directions)
        )

    def forward(self, x: Hidden, mask: SourceMask) -> tuple[Hidden, Float[Tensor, "B D"]]:
        """Outputs at every position, and those of each direction at the last token it reads."""
        # Whole rectangles run twice as fast as packed sequences, and padding comes last anyway.
        # What is read after the last token lands on padding: nobody looks there.
        last = mask.sum(dim=1, keepdim=True) - 1  # (B, 1)
        position = torch.arange(mask.shape[1], device=mask.device)
        # Reverses each sentence within its length and leaves padding where it is.
        mirrored = torch.where(mask, last - position, position).unsqueeze(-1)  # (B, S, 1)
        outputs, finals = [], []
        for index, lstm in enumerate(self.directions):
            output, _ = _run(lstm, x.gather(1, mirrored.expand_as(x)) if index else x)
            final = last.unsqueeze(-1).expand(-1, 1, output.shape[-1])  # (B, 1, D / directions)
            finals.append(output.gather(1, final).squeeze(1))
            outputs.append(output.gather(1, mirrored.expand_as(output)) if index else output)
        return torch.cat(outputs, dim=-1), torch.cat(finals, dim=-1)  # (B, S, D), (B, D)


class LstmEncoder(Encoder):
    """Layers of LSTMs, each reading the outputs of the one below."""

    def __init__(self, settings: LstmEncoderSettings, d_model: int) -> None:
        super().__init__()
        self.residual = settings.residual
        self.layers = nn.ModuleList(EncoderLayer(settings, d_model) for _ in range(settings.layers))
        self.dropout = Dropout(settings.dropout)
        self.embedding_dropout = embedding_dropout(settings)

    def forward(self, x: SourceHidden, mask: SourceMask, *, attention: bool = False) -> Encoded:
        x = self.embedding_dropout(x)
        finals = []
        for index, layer in enumerate(self.layers):  # the first reads what has its dropout already
            output, final = layer(self.dropout(x) if index else x, mask)  # (B, S, D), (B, D)
            x = x + output if self.residual and index else output
            finals.append(final)
        return Encoded(x, mask, tuple(finals))


class LstmDecoder(Decoder[RecurrentMemory, RecurrentState]):
    """Layers of LSTMs and, over the topmost, attention."""

    def __init__(self, settings: LstmDecoderSettings, d_model: int) -> None:
        super().__init__()
        self.input_feeding, self.residual = settings.input_feeding, settings.residual
        self.bridge = nn.ModuleList(linear(d_model, 2 * d_model) for _ in range(settings.layers))
        inputs = 2 * d_model if settings.input_feeding else d_model
        self.layers = nn.ModuleList(
            _lstm(d_model if index else inputs, d_model) for index in range(settings.layers)
        )
        kind = RECURRENT.get(settings.attention)
        self.attention = None if kind is None else kind(d_model)
        self.dropout = Dropout(settings.dropout)
        self.embedding_dropout = embedding_dropout(settings)

    def remember(self, encoded: Encoded) -> RecurrentMemory:
        # [W; W'] in one product: a state is within (-1, 1), as tanh leaves it, a cell is not.
        starts = [bridge(encoded.summary(layer)) for layer, bridge in enumerate(self.bridge)]
        hidden, cell = torch.stack(starts, dim=1).chunk(2, dim=-1)  # (B, L, D) each
        states = encoded.states
        keys = states if self.attention is None else self.attention.keys(states)
        return RecurrentMemory(states, keys, encoded.mask, torch.tanh(hidden), cell)

    def start(self, memory: RecurrentMemory, beam: int) -> RecurrentState:
        hidden = memory.hidden.repeat_interleave(beam, dim=0)  # (N, L, D)
        cell = memory.cell.repeat_interleave(beam, dim=0)
        return RecurrentState(hidden, cell, torch.zeros_like(hidden[:, -1]))

    def decode(
        self, memory: RecurrentMemory, state: RecurrentState, x: Hidden, *, attention: bool = False
    ) -> Decoded:
        words = self.embedding_dropout(x)  # (N, T, D)
        outputs, weights = [], []
        for x in torch.split(words, 1, dim=1) if self.input_feeding else [words]:
            if self.input_feeding:  # [x_t; s̃_(t-1)]: what attention chose is known to the next step
                x = torch.cat([x, state.feed.unsqueeze(1).to(x.dtype)], dim=-1)  # (N, 1, 2D)
            hiddens, cells = [], []
            for index, lstm in enumerate(self.layers):
                before = (s[:, index].unsqueeze(0).contiguous() for s in (state.hidden, state.cell))
                output, (hidden, cell) = _run(lstm, self.dropout(x) if index else x, *before)
                x = x + output if self.residual and index else output  # (N, T, D)
                hiddens.append(hidden[0])
                cells.append(cell[0])
            if self.attention is not None:  # the topmost layer's h_t asks, and becomes s̃_t
                x, weight = self.attention(x, memory.keys, memory.states, memory.mask)
                weights.append(weight)
            outputs.append(self.dropout(x))
            feed = outputs[-1][:, -1]
            state = RecurrentState(torch.stack(hiddens, 1), torch.stack(cells, 1), feed)
        looked = torch.cat(weights, dim=1)[:, None, None] if attention and weights else None
        return Decoded(torch.cat(outputs, dim=1), state, looked)  # looked: (N, 1, 1, T, S)


def _lstm(inputs: int, outputs: int) -> nn.LSTM:
    """One LSTM layer with orthogonal recurrent weights and a forget gate that starts open.

    Orthogonal weights neither shrink nor swell what passes through them a hundred times (Saxe et
    al. 2014), and an open gate lets the gradient through the cell (Jozefowicz et al. 2015).
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
    """Outputs at every position, and state and cell after the last.

    On a CPU in the precision of the weights, also inside of autocast: while gradients are recorded,
    oneDNN's LSTM in bfloat16 does not give the same bits in every process (oneDNN 3.12, processors
    with AMX); processors with AVX2 alone have none, and none has one in float16.
    """
    dtype = next(lstm.parameters()).dtype
    states = tuple(state.to(dtype) for state in before) or None
    with torch.autocast("cpu", enabled=False):
        return cast(tuple[Tensor, tuple[Tensor, Tensor]], lstm(x.to(dtype), states))
