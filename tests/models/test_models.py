"""The contract of a model, for every architecture and for ensembles."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn.functional import cross_entropy

from architectures import (
    ARCHITECTURES,
    ENSEMBLES,
    LSTM,
    VOCAB,
    assemble,
    make,
    pair,
    seq2seq,
    sources,
    targets,
)
from mtkit.config.decoding import DecodingSettings, ModelConfig
from mtkit.errors import UserError
from mtkit.extras.gpu.accelerate import can_share_rows
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.interfaces import select
from mtkit.models.layers import Dropout
from mtkit.models.layout import Layout
from mtkit.models.weights import get_weights, load_model, load_weights, save_weights
from mtkit.symbols import PAD
from mtkit.training.loss import projected_loss
from steps import draw_pairs, pack, rectangles

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
every_model = pytest.mark.parametrize("name", [*ARCHITECTURES, *ENSEMBLES])


def tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if is_dataclass(tree):
        return [t for f in fields(tree) for t in tensors(getattr(tree, f.name))]
    return [t for item in tree for t in tensors(item)]


@every_model
@pytest.mark.parametrize("sizes", [(1,) * 6, (1, 5), (4, 2)], ids=str)
def test_decoding_in_steps_of_any_size_equals_teacher_forcing(
    name: str, sizes: tuple[int, ...]
) -> None:
    model, source, target = assemble(name), sources([7, 4, 2]), targets(3, 6)
    memory = model.encode(source, source != PAD)
    whole = model.decode(memory, model.start(memory), target)
    state, steps = model.start(memory), []
    for symbols in target.split(sizes, dim=1):
        decoded = model.decode(memory, state, symbols)
        state = decoded.state
        steps.append(decoded.hidden)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole.hidden)
    for stepped, at_once in zip(tensors(state), tensors(whole.state), strict=True):
        torch.testing.assert_close(stepped, at_once)


@every_model
def test_padding_and_other_sentences_change_nothing(name: str) -> None:
    model, source, target = assemble(name), sources([9, 5, 1]), targets(3, 6)
    together = model(source, source != PAD, target)
    for row, length in enumerate([9, 5, 1]):
        alone = model(source[row : row + 1, :length], source[row : row + 1, :length] != PAD,
                      target[row : row + 1])  # fmt: skip
        torch.testing.assert_close(together[row : row + 1], alone)


@pytest.mark.parametrize("name", ["transformer", "transformer-no-positions"])
def test_without_positions_a_sentence_is_a_set_of_words(name: str) -> None:
    """{home, go, I} and {I, go, home} have the same encodings, in another order."""
    model, sentence, target = make(name), sources([4]), targets(1, 5)
    order = torch.tensor([2, 0, 3, 1])
    reordered = sentence[:, order]
    layout = Layout(sentence != PAD)
    encodings = model._encode(sentence, layout).states[0]  # (S, D)
    encodings_of_reordered = model._encode(reordered, layout).states[0]
    change = (encodings_of_reordered - encodings[order]).abs().max()
    predictions, others = (model(it, layout.mask, target) for it in (sentence, reordered))
    if name == "transformer-no-positions":
        assert change < 1e-12
        torch.testing.assert_close(others, predictions)
    else:
        assert change > 0.1
        assert (others - predictions).abs().max() > 0.01


@every_architecture
def test_packed_tokens_equal_rectangles_whatever_padding_holds(name: str) -> None:
    """Hidden states and gradients, with a row for each sentence and with shared rows."""
    model, pairs = make(name), draw_pairs([(3, 5), (0, 7), (6, 0), (2, 2), (7, 1), (1, 1), (4, 6)])
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
    source, target, gold = rectangles(pairs)
    expected = model(source, source != PAD, target)[gold != PAD]
    direction, parameters = torch.randn_like(expected), list(model.parameters())
    theirs = torch.autograd.grad(expected, parameters, direction, materialize_grads=True)
    model.train()
    for min_width in (0, 8, 24) if can_share_rows(model) else (0,):
        batch = pack(pairs, min_width)
        is_padding = torch.arange(len(batch.target_input)) >= batch.target_tokens
        hidden = model.read(
            batch.source.masked_fill(batch.source == PAD, 7),
            batch.source_layout,
            batch.target_input.masked_fill(is_padding, 8),
            batch.target_layout,
        )
        packed = hidden[~is_padding]
        torch.testing.assert_close(packed, expected)
        ours = torch.autograd.grad(packed, parameters, direction, materialize_grads=True)
        torch.testing.assert_close(ours, theirs)


@every_model
def test_later_target_symbols_do_not_change_earlier_hidden_states(name: str) -> None:
    model, source, target = assemble(name), sources([6, 3]), targets(2, 6)
    other = target.clone()
    other[:, 4:] = 4 + (other[:, 4:] - 3) % (VOCAB - 4)
    before = model(source, source != PAD, target)[:, :4]
    torch.testing.assert_close(model(source, source != PAD, other)[:, :4], before)


@every_model
def test_memory_leads_with_sentences_and_state_with_hypotheses(name: str) -> None:
    model, source = assemble(name), sources([6, 3, 4])
    memory = model.encode(source, source != PAD)
    assert {tensor.shape[0] for tensor in tensors(memory)} == {3}
    assert {tensor.shape[0] for tensor in tensors(model.start(memory, beam=5))} == {15}


@every_model
def test_a_hypothesis_of_a_beam_equals_a_sentence_of_its_own(name: str) -> None:
    model, source, target = assemble(name), sources([6, 3]), targets(6, 4)
    memory = model.encode(source, source != PAD)
    beams = model.decode(memory, model.start(memory, beam=3), target).hidden
    copies = source.repeat_interleave(3, dim=0)
    torch.testing.assert_close(beams, model(copies, copies != PAD, target))


@every_model
def test_select_commutes_with_decode(name: str) -> None:
    model, source, target = assemble(name), sources([6, 3, 5]), targets(6, 3)
    memory = model.encode(source, source != PAD)
    state = model.decode(memory, model.start(memory, beam=2), target).state
    following = targets(6, 1, seed=9)
    whole = model.decode(memory, state, following).hidden
    sentences, hypotheses = torch.tensor([2, 0]), torch.tensor([5, 4, 1, 1])
    chosen = model.decode(
        select(memory, sentences), select(state, hypotheses), following[hypotheses]
    ).hidden
    torch.testing.assert_close(chosen, whole[hypotheses])


def test_select_refuses_anything_but_trees_of_tensors() -> None:
    with pytest.raises(TypeError, match="tensors, tuples and dataclasses"):
        select({"a": torch.zeros(2)}, torch.tensor([0]))


@every_model
def test_interleaved_decodings_do_not_affect_each_other(name: str) -> None:
    model, target = assemble(name), targets(1, 4)
    alone = [model(source, source != PAD, target) for source in (sources([5]), sources([7]))]
    memories = [model.encode(s, s != PAD) for s in (sources([5]), sources([7]))]
    states, steps = [model.start(memory) for memory in memories], [[], []]  # type: ignore[var-annotated]
    for position in range(4):
        for index in (0, 1):
            decoded = model.decode(memories[index], states[index], target[:, [position]])
            states[index] = decoded.state
            steps[index].append(decoded.hidden)
    torch.testing.assert_close([torch.cat(hidden, dim=1) for hidden in steps], alone)


@every_architecture
def test_every_parameter_gets_a_gradient(name: str) -> None:
    model, source, target = make(name), sources([7, 4]), targets(2, 6)
    model.train()
    hidden = model(source, source != PAD, target)
    hidden, weight = model.output_factors(hidden)
    projected_loss(hidden.flatten(0, 1), weight, target.flatten(), 0.1).smoothed.backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # A key's bias adds the same to all scores of a query, which the softmax takes away again.
    assert [n for n in without if not n.endswith("key.bias")] == []


@every_model
def test_attention_weights_sum_to_one_and_are_zero_on_padding(name: str) -> None:
    model, source, target = assemble(name), sources([7, 4]), targets(6, 5)
    memory = model.encode(source, source != PAD)
    weights = model.decode(memory, model.start(memory, beam=3), target, attention=True).attention
    if name == "seq2seq-none":
        assert weights is None
        return
    assert weights is not None
    assert (weights.shape[0], *weights.shape[3:]) == (6, 5, 7)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    assert weights[3:, ..., 4:].abs().max() == 0


@every_architecture
def test_the_product_of_the_output_factors_is_the_projection(name: str) -> None:
    model, hidden = make(name), torch.randn(2, 3, 16, dtype=torch.float64)
    if model.output_bias is not None:
        torch.nn.init.normal_(model.output_bias)
    states, weight = model.output_factors(hidden)
    torch.testing.assert_close(states @ weight.T, model.project(hidden))


@every_architecture
def test_tied_embeddings_are_one_tensor(name: str) -> None:
    model, tie = make(name), ARCHITECTURES[name].tie
    assert (model.source_embedding.weight is model.target_embedding.weight) == (tie == "all")
    assert (model.output_weight is model.target_embedding.weight) == (tie != "none")


@pytest.mark.slow
@every_architecture
def test_every_architecture_memorises_eight_pairs(name: str) -> None:
    torch.manual_seed(0)
    model = EncoderDecoder(ARCHITECTURES[name], VOCAB, VOCAB)
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
    source, target = sources([6, 5, 4, 6, 3, 5, 6, 4]), targets(8, 5)
    inputs = torch.cat([torch.full((8, 1), 2), target[:, :-1]], dim=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(80):
        hidden = model(source, source != PAD, inputs)
        loss = cross_entropy(model.project(hidden).flatten(0, 1), target.flatten())
        if loss < 0.5 / 40:  # each symbol has more than half of the probability
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model.project(model(source, source != PAD, inputs)).argmax(-1) == target).all()


@every_architecture
def test_a_loaded_model_equals_the_saved_one(name: str, tmp_path: Path) -> None:
    settings = ARCHITECTURES[name]
    model = EncoderDecoder(settings, VOCAB, VOCAB).eval()
    save_weights(get_weights(model), tmp_path / "w.safetensors")
    vocabularies = {"source_vocab": VOCAB, "target_vocab": VOCAB}
    card = ModelConfig(model=settings, decoding=DecodingSettings(), **vocabularies)
    loaded = load_model(card, tmp_path / "w.safetensors").eval()
    for was, now in zip(model.named_buffers(), loaded.named_buffers(), strict=True):
        assert was[0] == now[0] and torch.equal(was[1], now[1])
    tied = [now for now, p in loaded.named_parameters(remove_duplicate=False) if p.requires_grad]
    assert tied == [was for was, _ in model.named_parameters(remove_duplicate=False)]
    assert len(list(loaded.parameters())) == len(list(model.parameters()))
    source, target = sources([5, 4]), targets(2, 3)
    assert torch.equal(model(source, source != PAD, target), loaded(source, source != PAD, target))


def test_an_encoder_layer_without_effect_is_refused() -> None:
    deaf = LSTM | {"attention": "none", "input_feeding": False}
    with pytest.raises(ValidationError, match=r"set encoder\.layers to 2 or less, not 3"):
        pair(encoder=LSTM | {"layers": 3}, decoder=deaf)
    pair(encoder=LSTM, decoder=deaf | {"layers": 3})


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(get_weights(make("transformer")), path)
    with pytest.raises(UserError, match="weights of another model"):
        load_weights(make("transformer-prenorm"), path)
    with pytest.raises(UserError, match="has shape"):
        load_weights(make("transformer", vocab=VOCAB + 1), path)
    path.write_bytes(b"no weights at all")
    with pytest.raises(UserError, match="not a safetensors file"):
        load_weights(make("transformer"), path)


def test_one_embedding_for_vocabularies_of_two_sizes_is_refused() -> None:
    with pytest.raises(UserError, match="vocabularies of 30 and 31"):
        EncoderDecoder(seq2seq(), 30, 31)
