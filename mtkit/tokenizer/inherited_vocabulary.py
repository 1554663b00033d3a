"""The vocabulary of a run that starts from a base model.

The core takes it as it is. An extra changes it as `tokenizer.new_pieces` and `drop_unused` ask for:
its entry point names a subclass of `InheritedVocabulary`.
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


class InheritedVocabulary:
    """The vocabulary of a run that starts from a base model; this class changes nothing."""

    def make_tokenizer(self, draft: Draft, config: Config, model: Artifact) -> Tokenizer:
        """Return the tokenizer of a run that starts from `model`, and say what it is."""
        say(f"tokenizer: copied from {name_of_origin(config, model)}")
        return Tokenizer.load(model)

    def fits(self, tokenizer: Tokenizer, base: Tokenizer) -> bool:
        """Return whether the tokenizer of a run can be made from that of the base model."""
        return tokenizer.models == base.models

    def change_weights(
        self, weights: Mapping[str, Tensor], tokenizer: Tokenizer, base: Tokenizer
    ) -> Mapping[str, Tensor]:
        """Return the weights of the base model with a row for each subword of the run."""
        return weights


def find_inherited_vocabulary(config: Config) -> InheritedVocabulary:
    """Return what the settings ask for; by default, the vocabulary is taken as it is.

    Raises:
        UserError: the extra that changes vocabularies is not installed.
    """
    if not config.tokenizer.changes_vocabulary:
        return InheritedVocabulary()
    vocabulary: InheritedVocabulary = load_plugin("actions", "new_pieces")(config.tokenizer)
    return vocabulary
