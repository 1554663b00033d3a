"""The languages of a model, as far as its tags, its training data and its run tell."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from mtkit.artifacts.runs import SETTINGS, config_of
from mtkit.config.language_codes import find_language
from mtkit.decoding.estimation.estimator import load_estimator
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel


@dataclass(frozen=True)
class ModelLanguages:
    """What a model translates from and into."""

    source: str | None
    """A tag of BCP 47; None if it is unknown."""
    targets: Mapping[str, str | None]
    """For each target language the target tag that the model needs, if any; empty if unknown."""


def find_model_languages(model: OpenedModel) -> ModelLanguages:
    """Return the languages of a model, as tags of BCP 47; a target tag may be no language."""
    source = target = None
    facts = load_estimator(model.artifact).facts
    if facts is not None:
        sides = facts.statistics.source, facts.statistics.target
        source, target = (side.declared or side.language for side in sides)
    decoding = model.config.decoding
    source = source or decoding.sentences or decoding.source_tag
    targets: dict[str, str | None] = {
        find_language(tag) or tag: tag for tag in sorted(model.tokenizer.tags)
    }
    if not targets:
        target = _language_in_config(model) or target
        targets = {} if target is None else {find_language(target) or target: None}
    return ModelLanguages(find_language(source) if source else None, targets)


def _language_in_config(model: OpenedModel) -> str | None:
    """Return the target language in the config of the model's run; None if it names none."""
    if (model.run / SETTINGS).is_file():
        with suppress(UserError):  # the config of another version of mtkit
            return config_of(model.run).data.target_language
    return None
