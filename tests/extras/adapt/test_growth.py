"""Weights for a larger vocabulary: old rows are copied, new rows are means."""

from __future__ import annotations

import pytest
import torch

from architectures import transformer
from mtkit.extras.adapt.growth import SUPPRESSED_BIAS, grow_weights
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import assign_weights, get_weights
from mtkit.symbols import BOS

SIZE = 12
SPELLINGS = [[4], [5, 6], [7, 7, 8]]


@pytest.mark.parametrize("tie", ["all", "target", "none"])
@pytest.mark.parametrize("output_bias", [True, False])
def test_logits_of_old_pieces_are_as_before_and_those_of_new_pieces_are_means(
    tie: str, output_bias: bool
) -> None:
    settings = transformer(tie=tie, output_bias=output_bias)
    torch.manual_seed(1)
    old = EncoderDecoder(settings, SIZE, SIZE).eval()
    if old.output_bias is not None:
        torch.nn.init.normal_(old.output_bias)
    new = EncoderDecoder(settings, SIZE + 3, SIZE + 3).eval()
    assign_weights(new, grow_weights(get_weights(old), SPELLINGS, SPELLINGS))
    source = torch.tensor([[4, 9, 5, 3]])
    target = torch.tensor([[BOS, 6, 11, 7]])
    with torch.no_grad():
        before, after = (model.project(model(source, source != 0, target)) for model in (old, new))
    torch.testing.assert_close(after[..., :SIZE], before)
    for place, spelling in enumerate(SPELLINGS, SIZE):
        torch.testing.assert_close(after[..., place], before[..., spelling].mean(dim=-1))


def test_each_side_has_its_own_spellings_and_no_new_piece_changes_no_weight() -> None:
    torch.manual_seed(1)
    weights = get_weights(EncoderDecoder(transformer(tie="none"), SIZE, SIZE))
    for name, weight in grow_weights(weights, [], []).items():
        assert torch.equal(weight, weights[name])
    grown = grow_weights(weights, [[4, 5]], [[6]])
    rows = weights["source_embedding.weight"]
    assert torch.equal(grown["source_embedding.weight"][-1], (rows[4] + rows[5]) / 2)
    for name in ("target_embedding.weight", "output.weight"):
        assert torch.equal(grown[name][-1], weights[name][6])
    assert grown.keys() == weights.keys()


def test_a_suppressed_symbol_does_not_suppress_a_new_piece() -> None:
    for suppressed in (-1000.0, SUPPRESSED_BIAS):
        bias = torch.tensor([suppressed, 1.0, 3.0])
        grown = grow_weights({"output_bias": bias}, [], [[0, 1], [0], [1, 2]])
        assert grown["output_bias"].tolist() == [suppressed, 1, 3, 1, 0, 2]
