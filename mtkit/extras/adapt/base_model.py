"""The model that `mtkit init --from` names: whether it suits the new text, and its old text."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from mtkit.artifacts.runs import LATEST, leads_through_latest
from mtkit.batching.build import find_batches
from mtkit.config.corpora import Corpus, TableCorpus, TextCorpus
from mtkit.corpus.importers import find_importer
from mtkit.corpus.read import Pair, paths_of, read_pairs
from mtkit.corpus.rules import held_out_keys
from mtkit.corpus.spread import spread
from mtkit.errors import UserError, blame_setting
from mtkit.extras.adapt.old_text import (
    OldTraining,
    find_old_training,
    kept_pairs,
    test_pairs,
    validation_pairs,
)
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import OpenedModel
from mtkit.models.weights import load_model
from mtkit.report import warn
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import find_unknown_letters
from mtkit.training.batch import Side, pack_batch
from mtkit.training.loss import TrainingLoss

FIT_PAIRS = 200
"""Number of new pairs on which the loss of the base model is measured."""
FIT_BATCH = 20
"""Pairs of a batch of this measurement."""
FIT_SUBWORDS = 128
"""Longest side of a pair for this measurement; a longer one is cut."""
MAX_EXCESS = 1.0
"""Largest loss above the unigram entropy, in nats per subword, of a model that knows the language.

Six models were measured on other kinds of text than their training text. In the language that a
model writes, the loss was at most 0.2 above the entropy; in another language, 1.5 to 5.5.
"""
MIN_GAIN = 0.1
"""A model understands the sources if wrong sources raise its loss by at least this much (nats)."""
MIN_OLD_LINES = 50
"""Fewest lines of old text on which the base model is measured."""
MAX_OLD_LINES = 1000
"""Most lines of the old text; more would take long to translate."""
MAX_UNKNOWN_LETTERS = 0.01
"""If a larger share of the letters is outside the vocabulary, it lacks subwords."""


@dataclass(frozen=True)
class Fit:
    """How well a model predicts new text, in nats per target subword."""

    loss: float
    """The loss with the right sources."""
    mismatched_loss: float
    """The loss with the sources of other pairs, which say nothing about the targets."""
    entropy: float
    """The unigram entropy of these targets: the loss of a model that knows only frequencies."""

    def __str__(self) -> str:
        return (
            f"{self.loss:.2f} nats per subword; with the sources of other lines "
            f"{self.mismatched_loss:.2f}, by the frequencies of subwords alone {self.entropy:.2f}"
        )

    @property
    def is_better_than_chance(self) -> bool:
        """Whether the model seems to write the target language, and to understand the sources."""
        is_writing_language = self.loss - self.entropy <= MAX_EXCESS
        is_using_source = self.mismatched_loss - self.loss >= MIN_GAIN
        return is_writing_language and is_using_source


@dataclass(frozen=True)
class OpenedBaseModel:
    """A model that is to be adapted."""

    opened: OpenedModel
    place: str
    """The model as the config names it."""
    old_text: Sequence[Pair]
    """Text that the adapted model must not translate worse; empty: nothing limits the harm."""
    is_old_text_named: bool
    """Whether the user has named the old text (`--keep`)."""
    old_training: OldTraining
    held_out: frozenset[int] = frozenset()
    """Keys of the text that measures the base model: none of it may be trained on."""

    def as_parent(self) -> OpenedBaseModel:
        """Return the model as the parent of a model for other languages.

        What it could translate is neither replayed nor kept, unless the user has named old text.
        """
        old_text = self.old_text if self.is_old_text_named else ()
        return replace(self, old_text=old_text, old_training=OldTraining())


def find_old_text(opened: OpenedModel, place: str, keep: Corpus | None) -> OpenedBaseModel:
    """Return the model that `--from` names with its old text.

    `keep`: the text to keep; None: the validation set of the model's run, if it is at hand.

    Raises:
        UserError: the text cannot be read.
    """
    old_training = OldTraining()
    old_text: list[Pair] = []
    batches = find_batches(opened.artifact, opened.run)
    if batches is not None:
        old_training = find_old_training(opened, batches)
        old_text += validation_pairs(batches)
    measuring = [*old_text, *test_pairs(opened)]
    if keep is not None:
        with blame_setting(("--keep",)):
            old_text = [*read_pairs(keep)]
    elif batches is not None:
        old_text += kept_pairs(opened)
    old_text = [pair for pair in old_text if not pair.blank]
    if keep is not None and not old_text:
        path = next(paths_of(keep))
        raise UserError(f"--keep: {path}: every pair is blank on a side; give text to keep")
    return OpenedBaseModel(
        opened=opened,
        place=place,
        old_text=spread(old_text, MAX_OLD_LINES),
        is_old_text_named=keep is not None,
        old_training=old_training,
        held_out=held_out_keys([*measuring, *old_text]),
    )


def check_suitability(base: OpenedBaseModel, sample: Sequence[Pair], how_to_swap: str) -> Fit:
    """Measure how well the base model predicts new text; warn if it is no better than chance.

    Warn, too, if this is so of the old text that the user names. The warnings name the likely
    cause: the other direction, other languages, or lines that do not match. `how_to_swap`: what to
    do if the new text is in the other direction.
    """
    opened = base.opened
    model = load_model(opened.config, opened.weights).eval()
    tokenizer = opened.tokenizer
    pairs = sample[:FIT_PAIRS]
    source_tag = opened.config.decoding.source_tag
    fit = measure_fit(model, tokenizer, pairs, source_tag)
    if not fit.is_better_than_chance:
        cause = _find_cause(model, tokenizer, pairs, source_tag, how_to_swap)
        warn(
            f"--from: {base.place} predicts the new text no better than chance ({fit}): probably "
            f"this model {cause}; a model of a related language may still help"
        )
    if base.is_old_text_named and len(base.old_text) >= MIN_OLD_LINES:
        old_pairs = spread(base.old_text, FIT_PAIRS)
        old_fit = measure_fit(model, tokenizer, old_pairs, source_tag)
        if not old_fit.is_better_than_chance:
            cause = _find_cause(model, tokenizer, old_pairs, source_tag, "swap its files")
            warn(
                f"--keep: {base.place} predicts this text no better than chance ({old_fit}), so "
                f"nothing can be forgotten there: probably the base model {cause}"
            )
    return fit


def _find_cause(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    source_tag: str | None,
    how_to_swap: str,
) -> str:
    """Say why a model may predict pairs no better than chance; the subject is the model."""
    swapped = [pair._replace(source=pair.target, target=pair.source) for pair in pairs]
    if measure_fit(model, tokenizer, swapped, source_tag).is_better_than_chance:
        return f"translates in the other direction, so {how_to_swap}"
    return "is for other languages or domains, or sources and targets do not match"


def describe_swap(corpus: Corpus) -> str:
    """Say how to read a corpus in the other direction."""
    if isinstance(corpus, TextCorpus):
        return "swap SOURCE and TARGET"
    option = "--columns"
    if isinstance(corpus, TableCorpus) and corpus.target_tag is None:
        importer = find_importer(str(corpus.table))
        option = option if importer is None else importer.column_option
    return f"use {option} {corpus.target_column} {corpus.source_column}"


@torch.inference_mode()
def measure_fit(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    source_tag: str | None = None,
) -> Fit:
    """Return the loss of a model on pairs, and what it is compared with."""
    whole_sources = tokenizer.encode_source([pair.source for pair in pairs])
    whole_targets = tokenizer.encode_target([pair.target for pair in pairs])
    sources = [ids[:FIT_SUBWORDS] for ids in whole_sources]
    targets = [ids[:FIT_SUBWORDS] for ids in whole_targets]
    for pair, ids, target_ids in zip(pairs, sources, targets, strict=True):
        if pair.target_tag is not None:
            before_source, before_target = tokenizer.language_symbols(pair.target_tag, source_tag)
            ids[:0] = before_source
            target_ids[:0] = before_target
    # For the mismatched loss, each target gets the source of its neighbour. Sorting puts pairs of
    # one tag and similar length side by side, so that only the content of the source is wrong.
    order = sorted(
        range(len(pairs)), key=lambda row: (pairs[row].target_tag or "", len(targets[row]))
    )
    sources = [sources[row] for row in order]
    targets = [targets[row] for row in order]
    mismatched = sources[1:] + sources[:1]
    return Fit(
        loss=_mean_loss(model, sources, targets),
        mismatched_loss=_mean_loss(model, mismatched, targets),
        entropy=_entropy(targets),
    )


def _entropy(sentences: Sequence[list[int]]) -> float:
    """Return the entropy of the frequencies of subwords, with the end of each sentence, in nats."""
    counts = Counter(chain.from_iterable(sentences))
    counts[EOS] += len(sentences)
    shares = [count / counts.total() for count in counts.values()]
    return -math.fsum(share * math.log(share) for share in shares)


def _mean_loss(
    model: EncoderDecoder, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> float:
    """Return the loss in nats per target token, with the end of sentence."""
    loss_of = TrainingLoss(model, smoothing=0.0).eval()
    losses: list[float] = []
    tokens = 0
    for start in range(0, len(targets), FIT_BATCH):
        rows = slice(start, start + FIT_BATCH)
        batch = pack_batch(_concatenate(sources[rows]), _concatenate(targets[rows]))
        losses.append(loss_of(batch).nll.item())
        tokens += batch.target_tokens
    return math.fsum(losses) / max(1, tokens)


def _concatenate(sentences: Sequence[list[int]]) -> Side:
    """Return all ids one after the other, and the length of each sentence."""
    ids = np.array([token for sentence in sentences for token in sentence], np.int64)
    return ids, np.array([len(sentence) for sentence in sentences], np.int64)


def find_missing(base: OpenedBaseModel, sample: Sequence[Pair]) -> dict[str, float]:
    """Return a description of each side that the base model cannot spell, and the share of it."""
    lacks: dict[str, float] = {}
    unknown = find_unknown_letters(base.opened.tokenizer, sample)
    for side, letters in zip(("source", "target"), unknown, strict=True):
        if letters.share > MAX_UNKNOWN_LETTERS:
            lacks[f"{base.place}, {side}: {letters}"] = letters.share
    return lacks


def follow_latest(place: str) -> str:
    """Return the place of a model without runs/latest, which the next run will move.

    Other places are returned as they are.
    """
    if not leads_through_latest(place):
        return place
    inside = Path(place).absolute().relative_to(LATEST.absolute())
    return str(LATEST.parent / os.readlink(LATEST) / inside)
