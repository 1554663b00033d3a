"""A model whose steps are padded and recorded finds the hypotheses of the plain model.

Without a GPU, `Replay` takes the place of graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from architectures import ENSEMBLES
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.search.forced import find_attention
from mtkit.extras.gpu import search
from mtkit.extras.gpu.accelerate import GpuAcceleration
from mtkit.extras.gpu.graphs import Graphs, _tensors_of
from mtkit.models.acceleration import Inputs, Launcher, Output
from mtkit.models.interfaces import map_tensors
from mtkit.symbols import EOS, PAD
from searches import SYMBOLS, VOCABULARY, assert_same, beam_search, hypotheses_of, random_model

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Replay(Graphs):
    """Graphs on a CPU: at every call with the same shapes, they read and write the same memory."""

    def _capture(
        self, function: Callable[[Inputs], Output], inputs: Inputs
    ) -> tuple[Callable[[], None], Output]:
        output = function(inputs)

        def replay() -> None:
            for recorded, computed in zip(
                _tensors_of(output), _tensors_of(function(inputs)), strict=True
            ):
                recorded.copy_(computed)

        return replay, output


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short sentences have several sizes, and record without a GPU."""
    monkeypatch.setattr(search, "MIN_POSITIONS", 4)
    if DEVICE.type == "cpu":
        monkeypatch.setattr(GpuAcceleration, "new_launcher", lambda self: Replay())


def draw_source(*lengths: int) -> Tensor:
    source = torch.full((len(lengths), max(lengths) + 1), PAD)
    for row, length in zip(source, lengths, strict=True):
        row[:length] = torch.randint(min(SYMBOLS), VOCABULARY, (length,))
        row[length] = EOS
    return source.to(DEVICE)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize(
    "name",
    [
        "transformer",
        "transformer-prenorm",
        "transformer-deep-encoder",
        "lstm-transformer",
        "transformer-lstm",
        *ENSEMBLES,
    ],
)
def test_recorded_steps_find_the_hypotheses_of_the_plain_model(name: str, beam: int) -> None:
    torch.manual_seed(1)
    plain = random_model(name).to(DEVICE)
    fast = deepcopy(plain)
    GpuAcceleration().accelerate_search(fast)
    settings = DecodingSettings(beam=beam, max_length=20)
    for lengths in ((1, 9, 4, 7, 2), (3, 5), (1, 9, 4, 7, 2), (8, 6, 1, 3, 5, 2)):
        source = draw_source(*lengths)
        ours = beam_search(fast, source, settings)
        theirs = beam_search(plain, source, settings)
        for sentence in range(len(source)):
            assert_same(hypotheses_of(ours, sentence), hypotheses_of(theirs, sentence))


def test_a_model_that_searches_fast_has_the_attention_of_the_plain_model() -> None:
    plain = random_model("transformer").to(DEVICE)
    fast = deepcopy(plain)
    GpuAcceleration().accelerate_search(fast)
    source = draw_source(2, 5, 3)
    target = draw_source(6, 1, 4, 2, 3, 5)
    ours, theirs = (find_attention(model, source, target) for model in (fast, plain))
    assert ours is not None and theirs is not None
    torch.testing.assert_close(ours, theirs)


def test_a_step_reads_no_number_from_the_device() -> None:
    model = random_model("transformer")
    steps: list[search.SearchStep] = []

    class Note(Launcher):
        def call(self, name: str, function: Callable[[Inputs], Output], inputs: Inputs) -> Output:
            assert isinstance(inputs, search.SearchStep)
            steps.append(inputs)
            return function(inputs)

    search.accelerate_search(model, Note)
    beam_search(model, draw_source(2, 5, 3).cpu(), DecodingSettings(beam=2, max_length=3))
    decoder = model.decoder.to("meta")
    assert isinstance(decoder, search.SearchDecoder)
    with torch.inference_mode():
        for step in steps:  # a tensor on this device has no numbers
            hidden, _ = decoder.step(map_tensors(lambda tensor: tensor.to("meta"), step))
            assert hidden.device.type == "meta"


def test_sizes_are_few_and_less_than_twice_as_large() -> None:
    sizes = [search._round_up(size, 16) for size in range(1, 1025)]
    assert sorted(set(sizes)) == [16, 32, 64, 128, 256, 512, 1024]
    assert all(size <= rounded < max(17, 2 * size) for size, rounded in enumerate(sizes, start=1))
