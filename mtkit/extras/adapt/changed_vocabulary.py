"""What `tokenizer.new_pieces` and `drop_unused` do in a run: vocabulary and weights change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import config_of, name_of_origin
from mtkit.artifacts.stage import Draft
from mtkit.config.corpora import listed
from mtkit.config.settings import Config, SetName, TokenizerSettings
from mtkit.corpus.sets import open_set
from mtkit.corpus.store import CorpusRows, RowNumbers
from mtkit.errors import UserError, blame_setting
from mtkit.extras.adapt.new_pieces import Sides, extend_tokenizer, find_new_rows
from mtkit.extras.adapt.used_pieces import drop_unused
from mtkit.report import say
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.inherited_vocabulary import InheritedVocabulary
from mtkit.tokenizer.train_spm import sample_pairs, split_long_lines

if TYPE_CHECKING:  # to train a tokenizer needs no tensors
    from torch import Tensor

SETS: tuple[SetName, ...] = ("train", "keep")
"""The text whose subwords stay."""


class ChangedVocabulary(InheritedVocabulary):
    """The vocabulary of a base model without unused pieces, and new pieces for new text."""

    def __init__(self, settings: TokenizerSettings) -> None:
        self.settings = settings

    def make_tokenizer(self, draft: Draft, config: Config, model: Artifact) -> Tokenizer:
        """Return the changed tokenizer of a model, and say how many pieces stay and are new."""
        settings = self.settings
        base = Tokenizer.load(model)
        kept = base
        if settings.drop_unused:
            kept = drop_unused(base, _sample_kept(config))
        changed = kept
        if settings.new_pieces:
            sides = _sample_new(config, model)
            with blame_setting(("tokenizer", "new_pieces")):
                changed = extend_tokenizer(
                    kept, sides, settings.new_pieces, split_digits=settings.split_digits
                )
        source = changed.source_vocab - kept.source_vocab
        target = changed.target_vocab - kept.target_vocab
        draft.report["new_pieces"] = {"source": source, "target": target}
        say(
            f"tokenizer: {kept.target_vocab:,} of {base.target_vocab:,} subwords of "
            f"{name_of_origin(config, model)}, and {target:,} new ones"
        )
        return changed

    def fits(self, tokenizer: Tokenizer, base: Tokenizer) -> bool:
        """Return whether the tokenizer of a run can be made from that of the base model."""
        sides = find_new_rows(tokenizer, base)
        if sides is None:
            return False
        for rows, old_pieces in zip(sides, base.vocabularies, strict=True):
            is_whole = len(rows.kept) == len(old_pieces)
            has_few_new = len(rows.spellings) <= self.settings.new_pieces
            if not has_few_new or not (is_whole or self.settings.drop_unused):
                return False
        return True

    def change_weights(
        self, weights: Mapping[str, Tensor], tokenizer: Tokenizer, base: Tokenizer
    ) -> Mapping[str, Tensor]:
        """Return the weights of the base model with a row for each subword of the run."""
        from mtkit.extras.adapt.growth import change_weights  # imports torch

        sides = find_new_rows(tokenizer, base)
        assert sides is not None  # as `fits` requires
        return change_weights(weights, *sides)


def _sample_kept(config: Config) -> Sides:
    """Return the lines of the training text and of the text to keep."""
    pairs: list[tuple[str, str]] = []
    for name in SETS:
        if config.data.corpora(name):
            with open_set(config, name) as rows:
                pairs += sample_pairs(rows, config.tokenizer.sample_lines, config.seed)
    return _split(pairs)


def _sample_new(config: Config, model: Artifact) -> Sides:
    """Return the lines of the training text that is new to a base model."""
    with open_set(config, "train") as rows:
        new_rows = _find_new_text(config, model, rows)
        return _split(sample_pairs(rows, config.tokenizer.sample_lines, config.seed, new_rows))


def _split(pairs: Sequence[tuple[str, str]]) -> Sides:
    sources = split_long_lines(source for source, _ in pairs)
    targets = split_long_lines(target for _, target in pairs)
    return list(sources), list(targets)


def _find_new_text(config: Config, model: Artifact, rows: CorpusRows) -> RowNumbers | None:
    """Return the rows of the corpora that a base model has not seen; None if nobody knows them.

    The others are replayed, and the vocabulary of the model was made for them.
    """
    try:
        before = listed(config_of(model.path.parent).data.train)
    except UserError:  # the model is not in its run
        return None
    # A run that replays a corpus changes only its weight.
    known = [corpus.model_copy(update={"weight": 1.0}) for corpus in before]
    new: list[NDArray[np.int64]] = []
    for index, corpus in enumerate(rows.corpora):
        if corpus.model_copy(update={"weight": 1.0}) not in known:
            new.append(np.array(rows.rows_of(index)))
    return np.concatenate(new) if new else None
