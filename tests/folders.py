"""Model folders with random weights, and a small tokenizer."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import sentencepiece
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Identity

from architectures import seq2seq
from mtkit.artifacts.manifest import kind_at, open_artifact
from mtkit.artifacts.replacement import create
from mtkit.artifacts.storage import write_json
from mtkit.config.decoding import DecodingSettings, ModelConfig
from mtkit.config.model import ModelSettings
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.models.attention import MultiHeadAttention
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.interfaces import Decoded, Memory, State
from mtkit.models.layers import SUBLAYER_GAIN, FeedForward
from mtkit.models.transformer import DecoderLayer, TransformerDecoder
from mtkit.models.weights import get_weights, save_weights
from mtkit.symbols import BOS, EOS, PAD
from mtkit.tokenizer.codec import Tokenizer

SENTENCES = ["A dog runs.", "Two men, one boat.", "It rains on the plain in Spain.", "Why?"]


def train(sentences: list[str] = SENTENCES, *, vocab_size: int = 300, **changes: Any) -> Tokenizer:
    model = io.BytesIO()
    options: dict[str, Any] = {"model_type": "bpe", "byte_fallback": True} | changes
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences * 20),
        model_writer=model,
        vocab_size=vocab_size,
        pad_id=PAD,
        unk_id=1,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
        **options,
    )
    return Tokenizer({Path("spm.model"): model.getvalue()})


def tokenizer_in(folder: Path) -> Tokenizer:
    """Load the tokenizer of a complete folder: a tokenizer, a model or a checkpoint."""
    kind = kind_at(folder)
    assert kind is not None
    return Tokenizer.load(open_artifact(folder, kind))


def paths_in(folder: Path) -> dict[str, Path]:
    """Return the paths of all files in a folder, by name."""
    return {path.name: path for path in folder.iterdir()}


def write_model(
    path: Path,
    tokenizer: Tokenizer,
    kind: ModelSettings,
    change: Callable[[EncoderDecoder], None] = lambda model: None,
    **decoding: Any,
) -> Path:
    """Write a model folder with random weights and large sublayers, modified by `change`."""
    torch.manual_seed(0)
    vocab = tokenizer.source_vocab
    card = ModelConfig(
        model=kind,
        source_vocab=vocab,
        target_vocab=vocab,
        decoding=DecodingSettings.model_validate({"max_length": 12} | decoding),
    )
    model = EncoderDecoder(kind, vocab, vocab)
    _grow_sublayers(model)
    change(model)
    with create(path, "model", {}, {}) as folder:
        save_weights(get_weights(model), folder / "model.safetensors")
        write_json(folder / "config.json", card.model_dump())
        tokenizer.copy_to(folder)
    return path


@torch.no_grad()
def _grow_sublayers(model: EncoderDecoder) -> None:
    """Enlarge the sublayers, because the input hardly affects a new model."""
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.output.weight.div_(SUBLAYER_GAIN)
        elif isinstance(part, FeedForward):
            part.contract.weight.div_(SUBLAYER_GAIN)


def as_if_trained(model: EncoderDecoder) -> None:
    """Make PAD and BOS improbable, EOS probable, and the probabilities of other symbols unequal.

    The first dimension of the last norm becomes constant 1, so its output weights act as a bias.
    """
    assert isinstance(model.decoder, TransformerDecoder)
    residual = cast(DecoderLayer, model.decoder.layers[-1]).feed_forward_residual
    norm = residual.norm if isinstance(model.decoder_norm, Identity) else model.decoder_norm
    with torch.no_grad():
        norm.weight[0] = 0.0
        norm.bias[0] = 1.0
        model.output_weight.mul_(10.0)[:, 0] = 0.0
        model.output_weight[[PAD, BOS], 0] = -60.0
        model.output_weight[EOS, 0] = 8.0


@dataclass(frozen=True)
class Copied(Memory, State):
    """As memory: the source. As state: the number of copied symbols."""

    tensor: Tensor


class Copier(EncoderDecoder):
    """A model that copies its source with probability near 1, and attends to what it copies."""

    def __init__(self, vocab: int) -> None:
        super().__init__(seq2seq(), vocab, vocab)

    def encode(self, source: Tensor, source_mask: Tensor, *, attention: bool = False) -> Any:
        return Copied(tensor=source)

    def start(self, memory: Any, beam: int = 1) -> Copied:
        return Copied(tensor=memory.tensor.new_zeros(len(memory.tensor) * beam, 1))

    def decode(
        self, memory: Any, state: Any, target: Tensor, *, attention: bool = False
    ) -> Decoded:
        source = memory.tensor.repeat_interleave(len(target) // len(memory.tensor), dim=0)
        after = state.tensor + torch.arange(target.shape[1] + 1)
        place = after[:, :-1].clamp(max=source.shape[1] - 1)
        hidden = 30.0 * F.one_hot(source.gather(1, place), len(self.output_weight))
        attended = F.one_hot(place, source.shape[1]).float()[:, None, None]
        return Decoded(hidden, Copied(tensor=after[:, -1:]), attended if attention else None)

    def project(self, hidden: Tensor) -> Tensor:
        return hidden


def copier_of(tokenizer: Tokenizer) -> Translator:
    """Return a translator whose model copies its source."""
    engine = PyTorchEngine(Copier(tokenizer.source_vocab).eval())
    return Translator(engine, tokenizer, Request(DecodingSettings(beam=2, max_length=60)))


def searching_once(translator: Translator) -> Translator:
    """Return the same translator without second searches, which other programs do not have."""
    return replace(translator, request=replace(translator.request, search_again=False))


def with_settings(translator: Translator, **settings: Any) -> Translator:
    """Return the same translator with another request, as `Request.changed` makes it."""
    return replace(translator, request=translator.request.changed(**settings))
