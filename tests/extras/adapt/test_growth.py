"""Weights for a changed vocabulary: old rows are copied, new rows are means."""

from __future__ import annotations

import pytest
import torch

from architectures import transformer
from mtkit.extras.adapt.growth import SUPPRESSED_BIAS, change_weights
from mtkit.extras.adapt.new_pieces import NewRows
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import assign_weights, get_weights
from mtkit.symbols import BOS

SIZE = 12
SPELLINGS = [[4], [5, 6], [7, 7, 8]]
SOURCE, TARGET = [4, 9, 5, 3], [BOS, 6, 11, 7]


@pytest.mark.parametrize("kept", [list(range(SIZE)), [0, 1, 2, 3, 4, 5, 6, 7, 9, 11]])
@pytest.mark.parametrize("tie", ["all", "target", "none"])
@pytest.mark.parametrize("output_bias", [True, False])
def test_logits_of_old_pieces_are_as_before_and_those_of_new_pieces_are_means(
    tie: str, output_bias: bool, kept: list[int]
) -> None:
    settings = transformer(tie=tie, output_bias=output_bias)
    torch.manual_seed(1)
    old = EncoderDecoder(settings, SIZE, SIZE).eval()
    if old.output_bias is not None:
        torch.nn.init.normal_(old.output_bias)
    size = len(kept) + len(SPELLINGS)
    new = EncoderDecoder(settings, size, size).eval()
    rows = NewRows(kept, SPELLINGS)
    assign_weights(new, change_weights(get_weights(old), rows, rows))
    source, target = torch.tensor([SOURCE]), torch.tensor([TARGET])
    new_source = torch.tensor([[kept.index(i) for i in SOURCE]])
    new_target = torch.tensor([[kept.index(i) for i in TARGET]])
    with torch.no_grad():
        before = old.project(old(source, source != 0, target))
        after = new.project(new(new_source, new_source != 0, new_target))
    torch.testing.assert_close(after[..., : len(kept)], before[..., kept])
    for place, spelling in enumerate(SPELLINGS, len(kept)):
        torch.testing.assert_close(after[..., place], before[..., spelling].mean(dim=-1))


def test_each_side_has_its_own_rows_and_an_unchanged_vocabulary_changes_no_weight() -> None:
    torch.manual_seed(1)
    weights = get_weights(EncoderDecoder(transformer(tie="none"), SIZE, SIZE))
    whole = NewRows(range(SIZE))
    for name, weight in change_weights(weights, whole, whole).items():
        assert torch.equal(weight, weights[name])
    changed = change_weights(weights, NewRows(range(SIZE), [[4, 5]]), NewRows([0, 7], [[6]]))
    rows = weights["source_embedding.weight"]
    assert torch.equal(changed["source_embedding.weight"][-1], (rows[4] + rows[5]) / 2)
    for name in ("target_embedding.weight", "output.weight"):
        assert torch.equal(changed[name], weights[name][[0, 7, 6]])
    assert changed.keys() == weights.keys()


def test_a_suppressed_symbol_stays_so_but_does_not_suppress_a_new_piece() -> None:
    for suppressed in (-1000.0, SUPPRESSED_BIAS):
        bias = torch.tensor([suppressed, 1.0, 3.0])
        rows = NewRows(range(3), [[0, 1], [0], [1, 2]])
        changed = change_weights({"output_bias": bias}, rows, rows)
        assert changed["output_bias"].tolist() == [suppressed, 1, 3, 1, 0, 2]
