"""The vocabulary of a run that starts from a given model.

The core takes it as it is. An extra changes it as `tokenizer.new_pieces` and `drop_unused` ask for:
its entry point names a subclass of `GivenVocabulary`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import name_of_origin
from mtkit.artifacts.stage import Draft
from mtkit.config.settings import Config
from mtkit.plugins import load_plugin
from mtkit.report import say
from mtkit.tokenizer.codec import Tokenizer

if TYPE_CHECKING:  # to train a tokenizer needs no tensors
    from torch import Tensor


class GivenVocabulary:
    """The vocabulary of a run that starts from a given model; this class changes nothing."""

    def take_over(self, draft: Draft, config: Config, model: Artifact) -> Tokenizer:
        """Return the tokenizer of a run that starts from `model`, and say what it is."""
        say(f"tokenizer: copied from {name_of_origin(config, model)}")
        return Tokenizer.load(model)

    def fits(self, tokenizer: Tokenizer, given: Tokenizer) -> bool:
        """Return whether the tokenizer of a run can be made from that of the given model."""
        return tokenizer.models == given.models

    def change_weights(
        self, weights: Mapping[str, Tensor], tokenizer: Tokenizer, given: Tokenizer
    ) -> Mapping[str, Tensor]:
        """Return the weights of the given model with a row for each subword of the run."""
        return weights


def find_given_vocabulary(config: Config) -> GivenVocabulary:
    """Return what the settings ask for; by default, the vocabulary is taken as it is.

    Raises:
        UserError: the extra that changes vocabularies is not installed.
    """
    if not config.tokenizer.changes_given:
        return GivenVocabulary()
    vocabulary: GivenVocabulary = load_plugin("actions", "new_pieces")(config.tokenizer)
    return vocabulary
