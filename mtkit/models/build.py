"""From the settings of an architecture to a model."""

from __future__ import annotations

from mtkit.config.model import ModelSettings
from mtkit.models.base import TranslationModel
from mtkit.models.encoder_decoder import EncoderDecoder


def build_model(settings: ModelSettings, source_vocab: int, target_vocab: int) -> TranslationModel:
    """A freshly initialised model; seed torch before for reproducible weights."""
    return EncoderDecoder(settings.halves(), source_vocab, target_vocab)
