"""What `tokenizer.new_pieces` does in a run: the vocabulary and the weights of the model grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import config_of, name_of_origin
from mtkit.artifacts.stage import Draft
from mtkit.config.corpora import listed
from mtkit.config.settings import Config
from mtkit.corpus.sets import open_set
from mtkit.corpus.store import CorpusRows, RowNumbers
from mtkit.errors import UserError, blame_setting
from mtkit.extras.adapt.new_pieces import extend_tokenizer, is_extension, spell_new_pieces
from mtkit.report import plural, say
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.given_vocabulary import GivenVocabulary
from mtkit.tokenizer.train_spm import sample_pairs, split_long_lines

if TYPE_CHECKING:  # to train a tokenizer needs no tensors
    from torch import Tensor


class LargerVocabulary(GivenVocabulary):
    """The vocabulary of a given model, and new pieces for new text."""

    def take_over(self, draft: Draft, config: Config, model: Artifact) -> Tokenizer:
        """Return the tokenizer of a model with new pieces, and say how many they are."""
        settings = config.tokenizer
        old = Tokenizer.load(model)
        with open_set(config, "train") as rows:
            new_rows = _find_new_rows(config, model, rows)
            sample = sample_pairs(rows, settings.sample_lines, config.seed, new_rows)
        sources = list(split_long_lines(source for source, _ in sample))
        targets = list(split_long_lines(target for _, target in sample))
        with blame_setting(("tokenizer", "new_pieces")):
            extended = extend_tokenizer(
                old, (sources, targets), settings.new_pieces, split_digits=settings.split_digits
            )
        source = extended.source_vocab - old.source_vocab
        target = extended.target_vocab - old.target_vocab
        draft.report["new_pieces"] = {"source": source, "target": target}
        counts = f"{target:,}" if len(old.models) == 1 else f"{source:,} and {target:,}"
        say(
            f"tokenizer: that of {name_of_origin(config, model)}, and {counts} new subwords "
            f"learned from {plural(len(sample), 'pair')}"
        )
        return extended

    def fits(self, tokenizer: Tokenizer, given: Tokenizer) -> bool:
        """Return whether the tokenizer of a run is that of the given model, or extends it."""
        return is_extension(tokenizer, given)

    def grow_weights(
        self, weights: Mapping[str, Tensor], tokenizer: Tokenizer, given: Tokenizer
    ) -> Mapping[str, Tensor]:
        """Return the weights of the given model with rows for all subwords of the run."""
        from mtkit.extras.adapt.growth import grow_weights  # imports torch

        source, target = spell_new_pieces(tokenizer, given)
        return grow_weights(weights, source, target)


def _find_new_rows(config: Config, model: Artifact, rows: CorpusRows) -> RowNumbers | None:
    """Return the training pairs on whose corpora a given model was not trained; None: all pairs.

    The others are replayed, and the vocabulary of the model was made for them.
    """
    try:
        before = listed(config_of(model.path.parent).data.train)
    except UserError:  # the model is not in its run
        return None
    known = [corpus.model_copy(update={"weight": 1.0}) for corpus in before]
    new: list[NDArray[np.int64]] = []
    for index, corpus in enumerate(rows.corpora):
        if corpus.model_copy(update={"weight": 1.0}) not in known:
            new.append(np.array(rows.rows_of(index)))
    return np.concatenate(new) if new else None
