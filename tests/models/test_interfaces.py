"""Any encoder goes with any decoder, and short names are short for pairs."""

from __future__ import annotations

import pytest
import torch

from architectures import ARCHITECTURES, LAYERS, LSTM, VOCAB, pair, seq2seq, transformer
from mtkit.config.model import ModelSettings
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.interfaces import EncoderOutput


@pytest.mark.parametrize("kind", [kind for kind in ARCHITECTURES if "transformer" in kind])
def test_a_pair_of_like_transformers_has_its_short_name_back(kind: str) -> None:
    halves = ARCHITECTURES[kind].as_pair()
    try:
        assert halves.as_transformer().as_pair() == halves
    except ValueError:
        assert ARCHITECTURES[kind].kind == "encoder-decoder"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (seq2seq(), "model.kind: seq2seq"),
        (pair(encoder=LAYERS, decoder=LSTM), "model.decoder.kind: lstm"),
        (pair(encoder=LSTM, decoder=LAYERS), "model.encoder.kind: lstm"),
        (pair(encoder=LAYERS, decoder=LAYERS | {"heads": 2}), "model.decoder.heads: 2, but the en"),
        (pair(encoder=LAYERS, decoder=LAYERS | {"norm": "pre"}), "model.decoder.norm: pre, but"),
    ],
)
def test_what_has_no_short_name_says_by_which_setting(settings: ModelSettings, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        settings.as_transformer()


def test_a_decoder_starts_from_where_the_encoders_layers_ended_or_from_the_mean_of_its_states() -> (
    None
):
    states = torch.randn(2, 3, 4)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    finals = (torch.randn(2, 4), torch.randn(2, 4))
    read_in_order = EncoderOutput(states, mask, finals)
    assert [read_in_order.summary(layer) is finals[min(layer, 1)] for layer in range(3)] == [
        True
    ] * 3
    mean = EncoderOutput(states, mask).summary(0)
    torch.testing.assert_close(mean, torch.stack([states[0].mean(dim=0), states[1, 0]]))


def test_positions_are_one_table_for_both_halves() -> None:
    learned = transformer(positions="learned", max_positions=8)
    names = [name for name, _ in EncoderDecoder(learned, VOCAB, VOCAB).named_parameters()]
    assert [name for name in names if "positions" in name] == ["positions.table"]
