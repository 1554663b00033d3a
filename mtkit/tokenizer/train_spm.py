"""Stage 1: train a tokenizer on a sample of the training corpus, into `RUN/tokenizer`.

It may also be copied from another model, or from existing SentencePiece models. The same corpus,
settings and seed give the same bytes, on any number of cores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain, islice
from pathlib import Path

from sentencepiece import SentencePieceTrainer

from mtkit.artifacts.manifest import Artifact, hash_file, sha256_of
from mtkit.artifacts.recipe import tokenizer_recipe
from mtkit.artifacts.runs import INIT_FROM, find_origin
from mtkit.artifacts.stage import Draft, Stage
from mtkit.config.settings import Config, TokenizerSettings
from mtkit.config.target_tags import piece_of_tag
from mtkit.corpus.characters import count_letters
from mtkit.corpus.files import existing_file, listed_paths
from mtkit.corpus.read import Pair
from mtkit.corpus.sets import hash_sets, hold_sets, open_set
from mtkit.corpus.store import CorpusRows, RowNumbers
from mtkit.errors import MtkitError, UserError, blame_setting
from mtkit.report import plural, say, warn
from mtkit.symbols import BOS, EOS, PAD, UNK
from mtkit.tokenizer.codec import JOINT_MODEL, SOURCE_MODEL, TARGET_MODEL, Tokenizer, open_processor
from mtkit.tokenizer.inherited_vocabulary import find_inherited_vocabulary
from mtkit.tokenizer.pieces import adopt_model
from mtkit.tokenizer.spelling import UnknownLetters

MAX_LINE_CHARACTERS = 2000
"""Largest line; longer lines are split, because SentencePiece would drop them or fail."""
MAX_CHARACTER_BYTES = 10
"""Most bytes of a character of a line: 4 in UTF-8, and 3 for each of two boundaries."""
MAX_COMPARED_PAIRS = 10_000
"""Number of pairs at the start of the corpus whose letters an existing tokenizer should know."""
BOUNDARY = "\ufdd0"
"""Marks where no subword may continue; Unicode reserves it for such uses, so no text contains it.

A control character would not do, because some of SentencePiece's normalisations remove it.
"""
SPM_THREADS = 16
"""Number of threads; fixed, because the model file depends on it."""
_DIGIT = re.compile(r"\d")  # in Python, the decimal digits of all scripts


class VocabularyTooLarge(UserError):  # noqa: N818
    """The vocabulary is too large for the text; `largest` is the largest size that works."""

    def __init__(self, largest: int, message: str) -> None:
        super().__init__(message)
        self.largest = largest


def train_tokenizer(config: Config) -> Artifact:
    """Train the artifact `RUN/tokenizer` unless it is up to date, and return it.

    With `training.init_from`, take the tokenizer of that model instead, changed as
    `tokenizer.new_pieces` and `drop_unused` say; with `tokenizer.model`, use the SentencePiece
    models that it names.

    Raises:
        UserError: a model or the corpus cannot be read, or does not fit `tokenizer.vocab_size`.
    """
    with hold_sets(config, "train", "valid"):
        model = find_origin(config)
        stage = Stage(
            kind="tokenizer",
            path=Path(config.run) / "tokenizer",
            recipe=tokenizer_recipe(config),
            inputs=_hash_inputs(config, model),
        )
        return stage.ensure(config, lambda draft: _fill(draft, config, model))


def _hash_inputs(config: Config, model: Artifact | None) -> dict[str, str]:
    """Return the hashes of existing models, and of the training corpus if pieces are learned."""
    if model is not None:
        hashes = {"model": model.identity}
        if config.tokenizer.changes_vocabulary:
            hashes |= hash_sets(config, "train", "keep")
        return hashes
    paths = listed_paths(config.tokenizer.model or [])
    if not paths:
        return hash_sets(config, "train")
    with blame_setting(("tokenizer", "model")):
        files = [hash_file(existing_file(path)) for path in paths]
    inputs = {"tokenizer.model": sha256_of(files)}
    if config.data.target_tags:
        inputs["data.train.target_tag"] = sha256_of(config.data.target_tags)
    return inputs


def _fill(draft: Draft, config: Config, model: Artifact | None) -> None:
    """Write the SentencePiece models, and say where they come from."""
    if model:
        tokenizer = find_inherited_vocabulary(config).make_tokenizer(draft, config, model)
        with blame_setting(INIT_FROM):
            check_target_tags(tokenizer, config.data.target_tags)
        tokenizer.copy_to(draft.folder)
        _compare(tokenizer, config)
        return
    settings = config.tokenizer
    paths = listed_paths(settings.model or [])
    if paths:
        models = _adopt_models(paths, config)
        origin = f"from {' and '.join(paths)}"
    else:
        with open_set(config, "train") as rows:
            sample = sample_pairs(rows, settings.sample_lines, config.seed)
        models = _train_models(sample, config)
        origin = f"learned from {plural(len(sample), 'pair')}"
        draft.report["lines_per_side"] = len(sample)
    sizes: list[str] = []
    for name, content in models.items():
        vocabulary_size = _write(draft.folder / name, content)
        draft.report[name] = vocabulary_size
        sizes.append(f"{vocabulary_size:,}")
    say(f"tokenizer: {' and '.join(sizes)} subwords {origin}")
    if paths:
        _compare(Tokenizer({Path(name): content for name, content in models.items()}), config)


def check_target_tags(tokenizer: Tokenizer, tags: Iterable[str]) -> None:
    """Raise UserError unless the tokenizer of a base model has the target tags of the corpora.

    A new tag would need a new row in the embedding of that model.
    """
    known = ", ".join(sorted(tokenizer.tags))
    unknown = [tag for tag in tags if tokenizer.find_tag(tag) is None]
    if known and not tags:
        raise UserError(
            f"this model has the target tags {known}; give each corpus the target tag of its "
            "language"
        )
    if unknown:
        advice = f"choose from {known}" if known else "leave it out"
        raise UserError(
            f"this model has no target tag {unknown[0]!r}; {advice}, or train a new model on all "
            "corpora"
        )


def _compare(tokenizer: Tokenizer, config: Config) -> None:
    """Say what of the settings and of the corpus an existing tokenizer does not fit."""
    size = tokenizer.source_vocab
    wanted = config.tokenizer.vocab_size
    if "vocab_size" in config.tokenizer.model_fields_set and wanted != size:
        say(f"tokenizer.vocab_size {wanted:,} is ignored: the tokenizer has {size:,} subwords")
    with open_set(config, "train") as rows:
        source, target = find_unknown_letters(tokenizer, rows)
    advice = "use a tokenizer that knows these letters, or train one without tokenizer.model"
    if config.training.init_from is not None:
        advice = "set tokenizer.new_pieces, such as 1000, to add pieces for them to the vocabulary"
    for side, letters in (("source", source), ("target", target)):
        if letters.is_unusual:
            warn(f"data.train, {side}: {letters}, so each becomes several bytes; {advice}")


def find_unknown_letters(
    tokenizer: Tokenizer, pairs: Iterable[Pair]
) -> tuple[UnknownLetters, UnknownLetters]:
    """Count the letters of source and target that an existing tokenizer cannot spell.

    Only the first MAX_COMPARED_PAIRS pairs count.
    """
    source = UnknownLetters()
    target = UnknownLetters()
    for pair in islice(pairs, MAX_COMPARED_PAIRS):
        place = f"{pair.file}:{pair.line}"
        unknown = tokenizer.source_spelling.unknown_letters(pair.source)
        source.count(count_letters(pair.source), unknown, place)
        unknown = tokenizer.unknown_target_letters(pair.target)
        target.count(count_letters(pair.target), unknown, place)
    return source, target


def _adopt_models(paths: list[str], config: Config) -> dict[str, bytes]:
    """Return existing models, one for both sides or one for each side, by their new file names.

    The model of the sources gets the target tags.
    """
    tags = config.data.target_tags
    if len(paths) == 1:
        return {JOINT_MODEL: adopt_model(Path(paths[0]), tags)}
    source, target = paths
    return {SOURCE_MODEL: adopt_model(Path(source), tags), TARGET_MODEL: adopt_model(Path(target))}


def _train_models(sample: list[tuple[str, str]], config: Config) -> dict[str, bytes]:
    """Train one model on both sides, or one on each side; return them by their file names.

    The model of the sources gets the target tags.
    """
    settings = config.tokenizer
    tags = config.data.target_tags
    if settings.joint:
        # Source, target, source, target: the order of the lines matters for the bits.
        lines = chain.from_iterable(sample)
        return {JOINT_MODEL: train_model(lines, settings, JOINT_MODEL, tags)}
    sources = (source for source, _ in sample)
    targets = (target for _, target in sample)
    return {
        SOURCE_MODEL: train_model(sources, settings, SOURCE_MODEL, tags),
        TARGET_MODEL: train_model(targets, settings, TARGET_MODEL),
    }


def _write(path: Path, model: bytes) -> int:
    """Write a model, and its vocabulary as text (a line per id); return the vocabulary size."""
    path.write_bytes(model)
    processor, pieces = open_processor(path, model)
    rows = [f"{piece}\t{processor.get_score(i):g}\n" for i, piece in enumerate(pieces)]
    path.with_suffix(".vocab").write_text("".join(rows), encoding="utf-8")
    return len(pieces)


def sample_pairs(
    rows: CorpusRows, size: int, seed: int, among: RowNumbers | None = None
) -> list[tuple[str, str]]:
    """Draw up to `size` pairs with tagged sources, in order; `among`: rows to draw from."""
    drawn = rows.draw(size, seed, among=among)
    return [(pair.tagged, pair.target) for pair in rows.read(drawn)]


def split_long_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines in pieces of at most MAX_LINE_CHARACTERS; a blank line yields none."""
    for line in lines:
        for start in range(0, len(line), MAX_LINE_CHARACTERS):
            yield line[start : start + MAX_LINE_CHARACTERS]


def separate_digits(line: str) -> str:
    """Return the line with a BOUNDARY on both sides of each digit, of any script.

    SentencePiece's own option for this knows only the digits of ASCII and their full-width forms.
    """
    return _DIGIT.sub(f"{BOUNDARY}\\g<0>{BOUNDARY}", line)


def train_model(
    lines: Iterable[str],
    settings: TokenizerSettings,
    name: str,
    tags: Sequence[str] = (),
) -> bytes:
    """Train a SentencePiece model, and return it serialised; `name` is its file name.

    `tags`: target tags; each becomes a control symbol, which no text can contain.
    """
    lines = split_long_lines(lines)
    # In other kinds of models, each character is a subword anyway, and boundaries are errors.
    has_boundaries = settings.split_digits and settings.type in ("bpe", "unigram")
    if has_boundaries:
        lines = map(separate_digits, lines)
    model = BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=settings.type,
            vocab_size=settings.vocab_size,
            normalization_rule_name=settings.normalization,
            byte_fallback=settings.byte_fallback,
            character_coverage=settings.character_coverage,
            pretokenization_delimiter=BOUNDARY if has_boundaries else "",
            split_digits=has_boundaries,  # also those of normalised text: ½ becomes 1⁄2
            max_sentence_length=MAX_CHARACTER_BYTES * MAX_LINE_CHARACTERS,
            num_threads=SPM_THREADS,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=[piece_of_tag(tag) for tag in tags],
            minloglevel=3,  # errors come as exceptions
        )
    except RuntimeError as error:
        raise _translate_error(str(error), settings, name) from error
    return model.getvalue()


def _translate_error(message: str, settings: TokenizerSettings, name: str) -> MtkitError:
    """Return an error that explains SentencePiece's message, and names the setting to change."""
    sides = {SOURCE_MODEL: " of the source side", TARGET_MODEL: " of the target side"}
    side = sides.get(name, "")
    setting = f"tokenizer.vocab_size: {settings.vocab_size}"

    largest = re.search(r"Vocabulary size too high .* value <= (\d+)", message)
    if largest:
        return VocabularyTooLarge(
            int(largest[1]),
            f"{setting} is too large for the text{side}; lower it to at most {largest[1]}",
        )
    smallest = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if smallest:
        return UserError(
            f"{setting} is too small to hold every character{side}; raise it to at least "
            f"{smallest[1]}"
        )
    if "char_model_trainer" in message and settings.byte_fallback:
        return UserError(f"{setting} is too small; byte_fallback alone needs 260")
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return UserError(f"data.train has no text{side} to train a tokenizer on")
    return MtkitError(f"{name}: SentencePiece failed ({message})")
