"""Lines to subword ids and back: SentencePiece (Kudo and Richardson 2018), one model or one a side.

SentencePiece's ids are the ids that the translation model sees. A decoded line is one line, of
whole characters: bytes that spell none are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import compress, groupby
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from mtkit.errors import UserError
from mtkit.symbols import BOS, EOS, PAD, UNK
from mtkit.tokenizer.sampling import Sampler

JOINT_MODEL = "spm.model"
SOURCE_MODEL, TARGET_MODEL = "spm.source.model", "spm.target.model"

_LINE_BREAK = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class Tokenizer:
    """Both sides of a tokenizer, with one model or with one each."""

    def __init__(self, models: Mapping[Path, bytes]) -> None:
        """Raises UserError for what is no SentencePiece model of ours."""
        self.models = {path.name: model for path, model in models.items()}
        """The files, by name: one for both sides, or source then target."""
        sides = [_opened(path, model) for path, model in models.items()]
        (self._source, sources), (self._target, targets) = sides[0], sides[-1]
        self.vocabularies = sources, targets
        """Every subword of the source side and of the target side, by its id."""
        self.source_vocab, self.target_vocab = len(sources), len(targets)
        are_bytes = self._target.is_byte(list(range(self.target_vocab)))
        self._bytes = {
            i: int(targets[i][1:-1], 16) for i, is_byte in enumerate(are_bytes) if is_byte
        }
        self._special_or_bytes = {PAD, UNK, BOS, EOS, *self._bytes}

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """The tokenizer in a tokenizer artifact or in a model folder; UserError where none is."""
        names = (JOINT_MODEL,) if (folder / JOINT_MODEL).is_file() else (SOURCE_MODEL, TARGET_MODEL)
        try:
            return cls({folder / name: (folder / name).read_bytes() for name in names})
        except OSError as error:
            raise UserError(
                f"{folder}: no tokenizer here ({JOINT_MODEL}, or {SOURCE_MODEL} and {TARGET_MODEL})"
            ) from error

    def copy_to(self, folder: Path) -> None:
        """Writes the files into `folder`, byte for byte."""
        for name, model in self.models.items():
            (folder / name).write_bytes(model)

    def encode_source(self, lines: list[str]) -> list[list[int]]:
        """Subword ids of each line, without BOS and EOS."""
        return _encode(self._source, lines)

    def encode_target(self, lines: list[str]) -> list[list[int]]:
        """Subword ids of each line, without BOS and EOS."""
        return _encode(self._target, lines)

    def can_spell(self, source: str) -> bool:
        """Whether there are subwords for all of it, so that no character becomes bytes or UNK."""
        ids = self._source.encode(source)
        return UNK not in ids and not any(self._source.is_byte(ids))

    def samplers(self, alpha: float) -> tuple[Sampler, Sampler]:
        """Samplers of source and target; UserError where a text has one segmentation only."""
        return Sampler(self._source, alpha), Sampler(self._target, alpha)

    def decode(self, ids: list[list[int]]) -> list[str]:
        """Text of each sequence of target ids; special ids are skipped, line breaks are spaces."""
        written = [[line[place] for place in self._written(line)] for line in ids]
        texts = self._target.decode(written, num_threads=1) if ids else []
        return [_LINE_BREAK.sub(" ", text) for text in texts]

    def is_whole(self, ids: list[int]) -> bool:
        """Whether their bytes spell whole characters, so that `decode` leaves none of them out."""
        return len(self._written(ids)) == sum(i > EOS for i in ids)

    def _written(self, ids: list[int]) -> Sequence[int]:
        """Places of what is text: no special id, and no byte of half a character."""
        if self._special_or_bytes.isdisjoint(ids):
            return range(len(ids))
        places = [place for place, i in enumerate(ids) if i > EOS]
        if self._bytes.keys().isdisjoint(ids):
            return places
        written: list[int] = []
        for is_byte, run in groupby(places, key=lambda place: ids[place] in self._bytes):
            found = list(run)
            if is_byte:
                raw = bytes(self._bytes[ids[place]] for place in found)
                # A byte of no character is decoded to one of half of UTF-16, and back to one byte.
                characters = raw.decode(errors="surrogateescape")
                whole = [c < "\ud800" or c > "\udfff" for c in characters for _ in _utf8(c)]
                found = list(compress(found, whole))
            written += found
        return written

    def source_offsets(self, line: str) -> list[int]:
        """The character of `line` at which each of its subwords ends, that is its last one."""
        mapping = self._source.encode(line, return_type="offset_mapping")
        # A character that is spelt in bytes is only the last one's.
        return [max(begin, end - 1) for begin, end in mapping["offsets"]]

    def target_offsets(self, ids: list[int]) -> list[int]:
        """The same of `ids`, in the text that they decode to; without text, where it would be."""
        written = self._written(ids)
        mapping = self._target.decode(
            [ids[place] for place in written], return_type="offset_mapping"
        )
        spans, offsets, end = dict(zip(written, mapping["offsets"], strict=True)), [], 0
        for place in range(len(ids)):
            begin, end = spans.get(place, (end, end))
            offsets.append(max(begin, end - 1))
        return offsets

    def source_pieces(self, ids: list[int]) -> list[str]:
        """The subwords themselves, on the source side."""
        return [self.vocabularies[0][i] for i in ids]

    def target_pieces(self, ids: list[int]) -> list[str]:
        """The subwords themselves, for people who look at alignments and scores."""
        return [self.vocabularies[1][i] for i in ids]


def _opened(path: Path, model: bytes) -> tuple[SentencePieceProcessor, list[str]]:
    """A model and its subwords, by their ids."""
    processor = SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
        pieces = processor.id_to_piece(list(range(processor.vocab_size())))  # they may be no UTF-8
    except (RuntimeError, OSError, ValueError) as error:
        raise UserError(f"{path}: not a SentencePiece model: train one with mtkit") from error
    found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if found != (PAD, UNK, BOS, EOS):
        raise UserError(
            f"{path}: ids of pad, unk, bos and eos are {found}, not {(PAD, UNK, BOS, EOS)}: "
            "train a tokenizer with mtkit"
        )
    return processor, pieces


def _utf8(character: str) -> bytes:
    return character.encode(errors="surrogateescape")


def _encode(processor: SentencePieceProcessor, lines: list[str]) -> list[list[int]]:
    # One thread: a line takes microseconds, and workers encode side by side.
    ids: list[list[int]] = processor.encode(lines, num_threads=1)
    return ids
