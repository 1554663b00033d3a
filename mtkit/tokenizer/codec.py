"""Encode lines to subword ids, and decode them, by SentencePiece (Kudo and Richardson 2018).

Source and target share a SentencePiece model, or each side has its own. SentencePiece and the
translation model use the same ids. Bytes of incomplete characters are not decoded. In a source,
characters outside the vocabulary are replaced by similar ones (`spelling.py`); targets stay
unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from mtkit.artifacts.manifest import Artifact
from mtkit.config.language_codes import find_language
from mtkit.config.target_tags import tag_in_piece
from mtkit.corpus.characters import is_letter
from mtkit.corpus.text import in_one_line
from mtkit.errors import UserError
from mtkit.symbols import BOS, EOS, PAD, UNK
from mtkit.tokenizer.spelling import SourceSpelling

JOINT_MODEL = "spm.model"
SOURCE_MODEL, TARGET_MODEL = "spm.source.model", "spm.target.model"
MAX_MODEL_BYTES = 1 << 26
"""Largest SentencePiece model that is read; one with a million subwords takes half as much."""


class Tokenizer:
    """The tokenizer of source and target."""

    def __init__(self, models: Mapping[Path, bytes]) -> None:
        """Open a serialised model for both sides, or one for source and target; keys: their files.

        Raises:
            UserError: a file is not a SentencePiece model with the special symbols of mtkit.
        """
        self.models = {path.name: model for path, model in models.items()}
        sides = [_open(path, model) for path, model in models.items()]
        self._source, source_subwords = sides[0]
        self._target, target_subwords = sides[-1]  # the same, if there is only one model
        self.vocabularies = source_subwords, target_subwords
        """The source and target subwords, by id."""
        self.source_vocab = len(source_subwords)
        self.target_vocab = len(target_subwords)
        self._bytes = _find_bytes(self._target, target_subwords)
        """The byte of each target id that stands for one."""
        self.source_spelling = SourceSpelling(self.can_spell, _texts(self._source))
        """What the model reads for characters that the source vocabulary lacks."""
        self.tags = _find_tags(self._source, source_subwords)
        """The ids of the target tags in the source vocabulary, by name; text never becomes one."""
        target_tags = _find_tags(self._target, target_subwords)
        symbols = [i for i, subword in enumerate(target_subwords) if _is_symbol(subword)]
        self.source_only = [*target_tags.values(), *symbols]
        """The ids in the target vocabulary that no translation should have, such as tags."""

    @property
    def vocab(self) -> int:
        """The size of the larger vocabulary."""
        return max(self.source_vocab, self.target_vocab)

    @property
    def is_joint(self) -> bool:
        """Whether source and target share a SentencePiece model."""
        return len(self.models) == 1

    @classmethod
    def load(cls, artifact: Artifact) -> Tokenizer:
        """Load the tokenizer of a tokenizer artifact, a model or a checkpoint.

        Raises:
            UserError: the artifact lists no tokenizer, or its files are not SentencePiece models.
        """
        names = [JOINT_MODEL]
        if JOINT_MODEL not in artifact.files:
            names = [SOURCE_MODEL, TARGET_MODEL]
        paths = [artifact.file(name) for name in names]
        return cls({path: read_model(path) for path in paths})

    def copy_to(self, folder: Path) -> None:
        """Write the models to files in `folder`."""
        for name, model in self.models.items():
            (folder / name).write_bytes(model)

    def encode_source(self, lines: list[str], threads: int = 1) -> list[list[int]]:
        """Return the source subword ids of each line, without BOS and EOS."""
        spelled = [self.source_spelling.respell(line) for line in lines]
        return _encode(self._source, spelled, threads)

    def encode_target(self, lines: list[str], threads: int = 1) -> list[list[int]]:
        """Return the target subword ids of each line, without BOS and EOS."""
        return _encode(self._target, lines, threads)

    def can_spell(self, source: str) -> bool:
        """Return whether the source vocabulary can encode the text without bytes and <unk>."""
        return _can_spell(self._source, source)

    def unknown_target_letters(self, target: str) -> str:
        """Return the letters of a target that become bytes or <unk>."""
        letters = [character for character in target if is_letter(character)]
        unknown = {letter for letter in set(letters) if not _can_spell(self._target, letter)}
        return "".join(letter for letter in letters if letter in unknown)

    def decode(self, ids: list[list[int]]) -> list[str]:
        """Return the text of each list of target ids; line breaks become spaces."""
        shown = [[line[place] for place in self._text_places(line)] for line in ids]
        if len(shown) == 1:  # for a list, SentencePiece starts a thread
            texts = [self._target.decode(shown[0])]
        else:
            texts = self._target.decode(shown, num_threads=1)
        return [in_one_line(text) for text in texts]

    def decode_source(self, ids: list[list[int]]) -> list[str]:
        """Return the text of each list of source ids, as corpora hold it."""
        return list(self._source.decode(ids, num_threads=1))

    def is_whole(self, ids: list[int]) -> bool:
        """Return whether all bytes belong to complete characters, so that `decode` drops none."""
        return len(self._text_places(ids)) == sum(i > EOS for i in ids)

    def _text_places(self, ids: list[int]) -> list[int]:
        """Return the indices of ids that are text: no special symbols, no incomplete characters."""
        places = [place for place, i in enumerate(ids) if i > EOS]  # special symbols come first
        if self._bytes.keys().isdisjoint(ids):
            return places
        # A byte for each place; "a" stands for every other subword, and so ends a character.
        raw = bytes(self._bytes.get(ids[place], ord("a")) for place in places)
        # One flag for each byte, so for each place. A byte that belongs to no character decodes to
        # a lone surrogate.
        is_whole: list[bool] = []
        for character in raw.decode(errors="surrogateescape"):
            size = len(character.encode(errors="surrogateescape"))
            is_surrogate = "\ud800" <= character <= "\udfff"
            is_whole += [not is_surrogate] * size
        return list(compress(places, is_whole))

    def source_offsets(self, line: str) -> list[int]:
        """Return for each subword of `line` the offset of its last character."""
        spelled = self.source_spelling.respell(line)
        origins = self.source_spelling.origins(line)
        mapping = self._source.encode(spelled, return_type="offset_mapping")
        # If a character is several byte subwords, only the last of them has its span.
        return [origins[max(begin, end - 1)] for begin, end in mapping["offsets"]]

    def target_offsets(self, ids: list[int]) -> list[int]:
        """Return for each id the offset of its last character, else of the last one before it."""
        places = self._text_places(ids)
        text_ids = [ids[place] for place in places]
        mapping = self._target.decode(text_ids, return_type="offset_mapping")
        spans = dict(zip(places, mapping["offsets"], strict=True))
        offsets: list[int] = []
        end = 0
        for place in range(len(ids)):
            begin, end = spans.get(place, (end, end))  # an id without text has an empty span
            offsets.append(max(begin, end - 1))
        return offsets

    def find_tag(self, name: str) -> str | None:
        """Return the target tag of a name, which may be another code of the same language."""
        if name in self.tags:
            return name
        language = find_language(name) if self.tags else None
        for tag in self.tags:
            if language is not None and find_language(tag) == language:
                return tag
        return None

    def language_symbols(
        self, tag: str | None, source_tag: str | None
    ) -> tuple[list[int], list[int]]:
        """Return the ids that a source and its target begin with; the tags must be known.

        A source begins with the symbol of its target language. With `source_tag` it begins with the
        symbol of its own language, and the target with that of the target language.
        """
        ids = [self.tags[self.find_tag(name) or name] for name in (source_tag, tag) if name]
        if source_tag is None:
            return ids, []
        return ids[:1], ids[1:]

    def source_pieces(self, ids: list[int]) -> list[str]:
        """Return the subword of each source id."""
        return [self.vocabularies[0][i] for i in ids]

    def target_pieces(self, ids: list[int]) -> list[str]:
        """Return the subword of each target id."""
        return [self.vocabularies[1][i] for i in ids]


def read_model(path: Path) -> bytes:
    """Return the content of the file of a SentencePiece model.

    Raises:
        UserError: the file cannot be read, or is larger than any model.
    """
    try:
        with path.open("rb") as file:
            model = file.read(MAX_MODEL_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from error
    if len(model) > MAX_MODEL_BYTES:
        raise UserError(
            f"{path} is not a SentencePiece model: it is larger than {MAX_MODEL_BYTES >> 20} MiB"
        )
    return model


def open_processor(path: Path, model: bytes) -> tuple[SentencePieceProcessor, list[str]]:
    """Open the SentencePiece model of the file `path`; return it and its subwords by id.

    Raises:
        UserError: `model` is not a SentencePiece model.
    """
    processor = SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
        pieces = processor.id_to_piece(list(range(processor.vocab_size())))  # fails if not UTF-8
    except (RuntimeError, OSError, ValueError) as error:
        raise UserError(f"{path} is not a SentencePiece model") from error
    return processor, pieces


def _can_spell(processor: SentencePieceProcessor, text: str) -> bool:
    """Return whether a vocabulary can encode the text without bytes and <unk>."""
    ids = processor.encode(text)
    return UNK not in ids and not any(processor.is_byte(ids))


def _texts(processor: SentencePieceProcessor) -> list[str]:
    """Return the subwords that are text: no special symbols, no bytes."""
    texts: list[str] = []
    for i in range(processor.vocab_size()):
        is_text = not (processor.is_control(i) or processor.is_unknown(i) or processor.is_byte(i))
        if is_text:
            texts.append(processor.id_to_piece(i))
    return texts


def _find_bytes(model: SentencePieceProcessor, subwords: Sequence[str]) -> dict[int, int]:
    """Return the byte of each id that stands for one; its subword is like <0x0A>."""
    are_bytes = model.is_byte(list(range(len(subwords))))
    bytes_by_id: dict[int, int] = {}
    for i, subword in enumerate(subwords):
        if are_bytes[i]:
            bytes_by_id[i] = int(subword.strip("<>"), base=16)
    return bytes_by_id


def _find_tags(processor: SentencePieceProcessor, pieces: Sequence[str]) -> dict[str, int]:
    """Return the ids of the target tags of a vocabulary, by name."""
    tags: dict[str, int] = {}
    for i, piece in enumerate(pieces):
        name = tag_in_piece(piece) if piece.startswith("<2") else None
        # A text may have such a piece, too; only SentencePiece's control symbols are no text.
        if name is not None and processor.is_control(i):
            tags[name] = i
    return tags


def _is_symbol(subword: str) -> bool:
    """Return whether a subword is one of the symbols that version 0.1 put into sources.

    They are noncharacters (Unicode, section 23.7), which no text has.
    """
    return len(subword) == 1 and "\ufdd1" <= subword <= "\ufde3"


def _encode(processor: SentencePieceProcessor, lines: list[str], threads: int) -> list[list[int]]:
    if len(lines) == 1:  # for a list, SentencePiece starts a thread, which takes longer than a line
        return [processor.encode(lines[0])]
    return list(processor.encode(lines, num_threads=threads))


def _open(path: Path, model: bytes) -> tuple[SentencePieceProcessor, list[str]]:
    """Open a SentencePiece model; raise UserError if its special symbols have other ids."""
    processor, pieces = open_processor(path, model)
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    expected_ids = (PAD, UNK, BOS, EOS)
    if ids != expected_ids:
        raise UserError(
            f"{path}: ids of pad, unk, bos and eos are {ids}, but must be {expected_ids}; "
            "train a tokenizer with mtkit"
        )
    return processor, pieces
