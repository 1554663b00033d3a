"""Stage 1: train a tokenizer on a sample of the training corpus, into `RUN/tokenizer`.

It may also be copied from another model, or from existing SentencePiece models. The same corpus,
settings and seed give the same bytes, on any number of cores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from random import Random

from sentencepiece import SentencePieceTrainer

from mtkit.artifacts.manifest import Artifact, hash_file, sha256_of
from mtkit.artifacts.recipe import tokenizer_recipe
from mtkit.artifacts.runs import find_origin
from mtkit.artifacts.stage import Draft, Stage
from mtkit.config.settings import Config, TokenizerSettings
from mtkit.corpus.files import existing_file, listed_paths
from mtkit.corpus.read import Pair, chunks, hash_corpora, read_pairs
from mtkit.corpus.readable import check_all_readable
from mtkit.errors import MtkitError, UserError, blame_setting
from mtkit.progress import progress
from mtkit.report import plural, say
from mtkit.symbols import BOS, EOS, PAD, UNK
from mtkit.tokenizer.codec import JOINT_MODEL, SOURCE_MODEL, TARGET_MODEL, Tokenizer, open_processor
from mtkit.tokenizer.pieces import adopt_model

MAX_LINE_CHARACTERS = 2000
"""Largest line; longer lines are split, because SentencePiece would drop them or fail."""
MAX_SAMPLE_CHARACTERS = 1 << 28
"""Largest number of characters in the sample, to limit memory."""
SPM_THREADS = 16
"""Number of threads; fixed, because the model file depends on it."""


class VocabularyTooLarge(UserError):  # noqa: N818
    """The vocabulary is too large for the text; `largest` is the largest size that works."""

    def __init__(self, largest: int, message: str) -> None:
        super().__init__(message)
        self.largest = largest


def train_tokenizer(config: Config) -> Artifact:
    """Train the artifact `RUN/tokenizer` unless it is up to date, and return it.

    With `training.init_from`, copy the tokenizer of that model instead; with `tokenizer.model`, use
    the SentencePiece models that it names.

    Raises:
        UserError: a model or the corpus cannot be read, or does not fit `tokenizer.vocab_size`.
    """
    check_all_readable(config.data, "train", "valid")
    path, model = Path(config.run) / "tokenizer", find_origin(config)
    inputs = {"model": model.identity} if model else _hash_inputs(config)
    stage = Stage("tokenizer", path, tokenizer_recipe(config), inputs)
    return stage.ensure(config, partial(_fill, config=config, model=model))


def _hash_inputs(config: Config) -> dict[str, str]:
    """Return the hashes of the existing models, else of the training corpus."""
    if not (paths := listed_paths(config.tokenizer.model or [])):
        return hash_corpora(config.data.train, "data.train")
    with blame_setting(("tokenizer", "model")):
        return {"tokenizer.model": sha256_of([hash_file(existing_file(it)) for it in paths])}


def _fill(draft: Draft, config: Config, model: Artifact | None) -> None:
    if model:
        Tokenizer.load(model).copy_to(draft.folder)
        say(f"tokenizer: copied from {model.path}")
        return
    settings = config.tokenizer
    names = [JOINT_MODEL] if settings.joint else [SOURCE_MODEL, TARGET_MODEL]
    if paths := listed_paths(settings.model or []):
        models = dict(zip(names, map(adopt_model, map(Path, paths)), strict=True))
        origin = f"from {' and '.join(paths)}"
    else:
        sample = sample_pairs(read_pairs(config.data.train), settings.sample_lines, config.seed)
        draft.report["lines_per_side"] = len(sample)
        sides: list[Iterable[str]] = [chain.from_iterable(sample)]
        if not settings.joint:
            sides = [(source for source, _ in sample), (target for _, target in sample)]
        models = {
            name: train_model(lines, settings, name)
            for name, lines in zip(names, sides, strict=True)
        }
        origin = f"learned from {plural(len(sample), 'pair')}"
    sizes = [f"{_write(draft, name, model):,}" for name, model in models.items()]
    say(f"tokenizer: {' and '.join(sizes)} subwords {origin}")


def _write(draft: Draft, name: str, model: bytes) -> int:
    """Write a model, and its vocabulary as text (a line per id); return the vocabulary size."""
    path = draft.folder / name
    path.write_bytes(model)
    processor, pieces = open_processor(path, model)
    rows = (f"{piece}\t{processor.get_score(i):g}\n" for i, piece in enumerate(pieces))
    path.with_suffix(".vocab").write_text("".join(rows), encoding="utf-8")
    draft.report[name] = len(pieces)
    return len(pieces)


def sample_pairs(pairs: Iterable[Pair], size: int, seed: int) -> list[tuple[str, str]]:
    """Draw up to `size` pairs, each with the same probability (reservoir sampling, Vitter 1985)."""
    random = Random(seed)
    sample: list[tuple[str, str]] = []
    characters = 0
    with progress("reading", unit="pairs") as shown:
        for chunk in chunks(pairs):
            for seen, pair in enumerate(chunk, shown.count):
                place = seen if seen < size else random.randrange(seen + 1)
                if place < size:
                    replaced = sample[place : place + 1]
                    sample[place : place + 1] = [(pair.tagged, pair.target)]
                    characters += _count_characters([sample[place]]) - _count_characters(replaced)
                while characters > MAX_SAMPLE_CHARACTERS:
                    characters -= _count_characters([sample.pop(random.randrange(len(sample)))])
                    size = len(sample)
            shown.advance(len(chunk))
    return sample


def _count_characters(pairs: list[tuple[str, str]]) -> int:
    return sum(len(source) + len(target) for source, target in pairs)


def train_model(lines: Iterable[str], settings: TokenizerSettings, name: str) -> bytes:
    """Train a SentencePiece model, and return it serialised; `name` is its file name."""
    size = MAX_LINE_CHARACTERS
    pieces = (line[i : i + size] for line in lines for i in range(0, len(line), size))
    model = BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=pieces,
            model_writer=model,
            model_type=settings.type,
            vocab_size=settings.vocab_size,
            normalization_rule_name=settings.normalization,
            byte_fallback=settings.byte_fallback,
            character_coverage=settings.character_coverage,
            max_sentence_length=4 * size,  # in bytes
            num_threads=SPM_THREADS,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            minloglevel=3,
        )
    except RuntimeError as error:
        raise _translate_error(str(error), settings, name) from error
    return model.getvalue()


def _translate_error(message: str, settings: TokenizerSettings, name: str) -> MtkitError:
    """Return an error that explains SentencePiece's message, and names the setting to change."""
    too = f"tokenizer.vocab_size: {settings.vocab_size} is too"
    side = {SOURCE_MODEL: " of the source side", TARGET_MODEL: " of the target side"}.get(name, "")
    if largest := re.search(r"Vocabulary size too high .* value <= (\d+)", message):
        message = f"{too} large for the text{side}; lower it to at most {largest[1]}"
        return VocabularyTooLarge(int(largest[1]), message)
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return UserError(
            f"{too} small to hold every character{side}; raise it to at least {smallest[1]}"
        )
    if "char_model_trainer" in message and settings.byte_fallback:
        return UserError(f"{too} small; byte_fallback alone needs 260")
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return UserError(f"data.train has no text{side} to train a tokenizer on")
    return MtkitError(f"{name}: SentencePiece failed ({message})")
