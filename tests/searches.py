"""Searches by settings alone, as the engine makes them of a request."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.beam import Beam
from mtkit.decoding.constraints import constraints_of
from mtkit.decoding.sampling import Sampler
from mtkit.decoding.search import Hypotheses, search
from mtkit.models.base import TranslationModel


def beam_search(
    model: TranslationModel,
    source: Tensor,
    settings: DecodingSettings,
    prefixes: Sequence[Sequence[int]] = (),
) -> Hypotheses:
    stepper = Beam(settings.beam, settings.length_penalty)
    constraints = constraints_of(settings, prefixes)
    return search(model, source, stepper, constraints, settings.max_length)


def sample(
    model: TranslationModel,
    source: Tensor,
    settings: DecodingSettings,
    sampler: Sampler,
    prefixes: Sequence[Sequence[int]] = (),
) -> Hypotheses:
    return search(model, source, sampler, constraints_of(settings, prefixes), settings.max_length)
