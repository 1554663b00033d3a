"""Any encoder works with any decoder, and short forms stand for pairs."""

from __future__ import annotations

import pytest
import torch

from architectures import ARCHITECTURES, LAYERS, LSTM, pair, seq2seq
from mtkit.config.model import ModelSettings
from mtkit.models.interfaces import EncoderOutput
from mtkit.models.layout import Layout


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if "transformer" in name])
def test_a_pair_of_equal_transformers_becomes_its_short_form(name: str) -> None:
    settings = ARCHITECTURES[name].as_pair()
    try:
        assert settings.as_transformer().as_pair() == settings
    except ValueError:
        assert ARCHITECTURES[name].kind == "encoder-decoder"


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (seq2seq(), "model.encoder.kind is lstm"),
        (pair(encoder=LAYERS, decoder=LSTM), "model.decoder.kind is lstm"),
        (pair(encoder=LSTM, decoder=LAYERS), "model.encoder.kind is lstm"),
        (pair(encoder=LAYERS, decoder=LAYERS | {"heads": 2}), "model.decoder.heads is 2"),
        (pair(encoder=LAYERS, decoder=LAYERS | {"norm": "pre"}), "model.decoder.norm is pre"),
    ],
)
def test_a_pair_without_short_form_names_the_setting(settings: ModelSettings, setting: str) -> None:
    with pytest.raises(ValueError, match=setting):
        settings.as_transformer()


def test_the_summary_is_a_final_state_or_the_mean_of_all_states() -> None:
    states = torch.randn(2, 3, 4)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    finals = (torch.randn(2, 4), torch.randn(2, 4))
    recurrent = EncoderOutput(states, Layout(mask), finals)
    assert all(recurrent.summary(layer) is finals[min(layer, 1)] for layer in range(3))
    mean = EncoderOutput(states, Layout(mask)).summary(0)
    torch.testing.assert_close(mean, torch.stack([states[0].mean(dim=0), states[1, 0]]))
