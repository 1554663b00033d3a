"""The architectures, each behind the contract of `base`."""

from __future__ import annotations

from mtkit.config.model import ModelSettings, Seq2SeqSettings, TransformerSettings
from mtkit.models.base import Decoded, TranslationModel, select
from mtkit.models.recurrent import Seq2Seq
from mtkit.models.transformer import Transformer

__all__ = ["Decoded", "TranslationModel", "build_model", "select"]


def build_model(settings: ModelSettings, source_vocab: int, target_vocab: int) -> TranslationModel:
    """A freshly initialised model; seed torch before for reproducible weights."""
    match settings:
        case TransformerSettings():
            return Transformer(settings, source_vocab, target_vocab)
        case Seq2SeqSettings():
            return Seq2Seq(settings, source_vocab, target_vocab)
