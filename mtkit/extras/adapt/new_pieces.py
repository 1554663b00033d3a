"""New pieces for the tokenizer of a base model, learned from new text.

Pieces are appended, so the ids of old pieces stay. First come characters that the tokenizer cannot
spell. Then pairs of neighbouring pieces are merged, the most frequent first (byte pair encoding,
Sennrich et al. 2016), but starting from the pieces into which the old tokenizer splits the text.

Text in which no new piece occurs is split as before:

- BPE applies merges in the order of their scores, and new pieces have lower scores than all old
  ones. So a text is first split as before; then old pieces are merged into new ones.
- A unigram model finds the split with the largest sum of scores. A new piece has the sum of the
  scores of its two parts, and a little more (MERGE_MARGIN). So it replaces exactly these parts.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from mtkit.corpus.characters import is_mark, is_number
from mtkit.corpus.languages import script_of
from mtkit.errors import UserError
from mtkit.symbols import SPACE
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.pieces import model_from_bytes, with_pieces

MIN_OCCURRENCES = 3
"""Fewest occurrences of a new piece in the text it is learned from."""
MERGE_MARGIN = 0.1
"""What a new unigram piece scores above its parts together; scores of pieces differ far more."""
ENCODED_LINES = 10_000
"""Number of lines that SentencePiece splits at a time."""

IdPair = tuple[int, int]
"""The ids of neighbouring pieces."""
Word = tuple[int, ...]
Sides = tuple[Sequence[str], Sequence[str]]
"""Source and target lines."""


@dataclass(frozen=True)
class NewPiece:
    """A piece to be added to a SentencePiece model."""

    text: str
    score: float
    parts: tuple[str, ...] = ()
    """The two pieces that it merges; none of a character."""


@dataclass(frozen=True)
class NewRows:
    """Where the rows of a changed vocabulary come from."""

    kept: Sequence[int]
    """The ids of the old pieces that stay, which come first."""
    spellings: Sequence[Sequence[int]] = ()
    """For each new piece the ids of the old pieces that spell it."""


def extend_tokenizer(
    tokenizer: Tokenizer,
    sides: Sides,
    count: int,
    *,
    split_digits: bool,
) -> Tokenizer:
    """Return the tokenizer with up to `count` new pieces in each vocabulary.

    If nothing is added, the models stay identical, bit for bit.

    Raises:
        UserError: a model has whole words as pieces.
    """
    sources, targets = sides
    models = {Path(name): model for name, model in tokenizer.models.items()}
    if len(models) == 1:
        ((path, model),) = models.items()
        pieces = learn_pieces(model, [*sources, *targets], count, split_digits=split_digits)
        return Tokenizer({path: add_pieces(model, pieces)})
    (source_path, source_model), (target_path, target_model) = models.items()
    # The two models of MarianMT have one list of ids, so both get all new pieces.
    shares_ids = tokenizer.vocabularies[0] == tokenizer.vocabularies[1]
    source_count = count // 2 if shares_ids else count
    source = learn_pieces(source_model, sources, source_count, split_digits=split_digits)
    # The target gets the rest of a common list, also what the source does not need of its half.
    target_count = count - len(source) if shares_ids else count
    target = learn_pieces(target_model, targets, target_count, split_digits=split_digits)
    all_new_pieces = [*source, *target] if shares_ids else []
    return Tokenizer(
        {
            source_path: add_pieces(source_model, source, all_new_pieces),
            target_path: add_pieces(target_model, target, all_new_pieces),
        }
    )


def learn_pieces(
    model: bytes, lines: Sequence[str], count: int, *, split_digits: bool
) -> list[NewPiece]:
    """Return up to `count` pieces that a SentencePiece model lacks; all occur in the lines.

    A piece is used by itself, or is a part of a longer new piece. With `split_digits`, no new piece
    contains a digit beside another character.
    """
    proto = model_from_bytes(model)
    trainer_spec = proto.trainer_spec
    if trainer_spec.model_type == trainer_spec.WORD:
        raise UserError(
            "tokenizer.new_pieces: the tokenizer of the base model has whole words as pieces; set "
            "tokenizer.new_pieces to 0"
        )
    lowest = min((piece.score for piece in proto.pieces), default=0.0)
    is_bpe = trainer_spec.model_type == trainer_spec.BPE
    characters = _find_unknown_characters(model, lines, count)
    added: list[NewPiece] = []
    for number, character in enumerate(characters, 1):
        # BPE merges by descending score, so each later piece needs a lower one.
        score = lowest - number if is_bpe else lowest
        added.append(NewPiece(character, score))
    if trainer_spec.model_type == trainer_spec.CHAR:
        return added
    splitter = Splitter(add_pieces(model, added))
    merges = _Merges(splitter, split_digits=split_digits)
    merges.learn(splitter.count_words(lines), count - len(added))
    scores = dict(splitter.scores)
    for number, (text, parts) in enumerate(merges.learned, 1):
        if is_bpe:
            # Only the order counts. `added` grows, too, so each score is lower by 2.
            score = lowest - len(added) - number
        else:
            # The split with the largest sum of scores wins. Where two new pieces overlap, the piece
            # that was learned first should win, so the margin falls from piece to piece.
            margin = MERGE_MARGIN * (1 - number / (2 * count))
            score = sum(scores[part] for part in parts) + margin
        scores[text] = score  # a later piece may have this one as a part
        added.append(NewPiece(text, score, parts))
    return _find_used(model, added, lines)


def add_pieces(
    model: bytes, pieces: Sequence[NewPiece], all_new_pieces: Sequence[NewPiece] = ()
) -> bytes:
    """Return a SentencePiece model with new pieces at its end.

    `all_new_pieces`: if two models share their ids, the new pieces of both, in the order of the
    ids. The model lists all of them, but uses only its own `pieces`.
    """
    if not (pieces or all_new_pieces):
        return model
    proto = model_from_bytes(model)
    entry_class = proto.SentencePiece
    own = {piece.text: piece for piece in pieces}
    entries = list(proto.pieces)
    # A piece may be new on both sides.
    for text in dict.fromkeys(piece.text for piece in all_new_pieces or pieces):
        if text in own:
            entries.append(entry_class(piece=text, score=own[text].score, type=entry_class.NORMAL))
        else:
            entries.append(entry_class(piece=text, type=entry_class.UNUSED))
    return with_pieces(proto, entries)


def spell_pieces(model: bytes, pieces: Iterable[str]) -> list[list[int]]:
    """Return for each piece the ids of the pieces of a model that spell it.

    Unknown characters are spelled by bytes, or by <unk>.
    """
    proto = model_from_bytes(model)
    # A piece is normalised already, and need not stand at the start of a line.
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.precompiled_charsmap = b""
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    processor = SentencePieceProcessor(model_proto=proto.SerializeToString())
    # `encode` turns spaces back into SPACE.
    return [processor.encode(piece.replace(SPACE, " ")) for piece in pieces]


def _find_unknown_characters(model: bytes, lines: Iterable[str], count: int) -> list[str]:
    """Return up to `count` characters of the lines that a model cannot spell, most frequent first.

    Lines are normalised as the model does. Rare characters (MIN_OCCURRENCES) are left out.
    """
    processor = SentencePieceProcessor(model_proto=model)
    characters: Counter[str] = Counter()
    for line in lines:
        characters.update(processor.normalize(line))
    known = set(processor.id_to_piece(list(range(processor.vocab_size()))))
    unknown = {
        character: occurrences
        for character, occurrences in characters.items()
        if character not in known and occurrences >= MIN_OCCURRENCES
    }
    return sorted(unknown, key=lambda character: (-unknown[character], character))[:count]


class Splitter:
    """A SentencePiece model, which splits lines into words of pieces."""

    def __init__(self, model: bytes) -> None:
        self.processor = SentencePieceProcessor(model_proto=model)
        ids = list(range(self.processor.vocab_size()))
        self.pieces: list[str] = self.processor.id_to_piece(ids)
        self.scores = dict(zip(self.pieces, self.processor.get_score(ids), strict=True))
        proto = model_from_bytes(model)
        self.max_length: int = proto.trainer_spec.max_sentencepiece_length
        normal = proto.SentencePiece.NORMAL
        self.is_normal = [piece.type == normal for piece in proto.pieces]

    def encode(self, lines: Iterable[str]) -> Iterator[list[int]]:
        """Yield the ids of the pieces of each line."""
        iterator = iter(lines)
        while batch := list(islice(iterator, ENCODED_LINES)):
            yield from self.processor.encode(batch)

    def count_words(self, lines: Iterable[str]) -> Counter[Word]:
        """Count words that have at least two pieces.

        Bytes and special symbols end a word and belong to none.
        """
        words: Counter[Word] = Counter()
        for ids in self.encode(lines):
            word: list[int] = []
            for piece_id in ids:
                is_text = self.is_normal[piece_id]
                if not is_text or self.pieces[piece_id].startswith(SPACE):
                    words[tuple(word)] += 1  # it may be empty, and is then left out below
                    word = []
                if is_text:
                    word.append(piece_id)
            words[tuple(word)] += 1
        return Counter({word: count for word, count in words.items() if len(word) > 1})


class _Merges:
    """Learns merges of neighbouring pieces, the most frequent pair first."""

    def __init__(self, splitter: Splitter, *, split_digits: bool) -> None:
        self.learned: list[tuple[str, tuple[str, str]]] = []
        """New pieces, and the pieces that they merge."""
        self._pieces = list(splitter.pieces)
        self._known = set(self._pieces)
        self._max_length = splitter.max_length
        self._split_digits = split_digits
        self._words: list[list[int]] = []
        self._counts: list[int] = []
        """How often each word occurs."""
        self._pair_counts: Counter[IdPair] = Counter()
        self._places: defaultdict[IdPair, set[int]] = defaultdict(set)
        """The numbers of the words in which a pair occurs, or has occurred."""
        self._queue: list[tuple[int, str, str, IdPair]] = []
        """Pairs with their negative counts, the most frequent first; some are out of date."""

    def learn(self, words: Mapping[Word, int], count: int) -> None:
        """Learn up to `count` merges from words and their numbers of occurrences."""
        for number, (word, occurrences) in enumerate(words.items()):
            self._words.append(list(word))
            self._counts.append(occurrences)
            self._count_pairs(number, occurrences)
        self._enqueue(self._pair_counts)
        while self._queue and len(self.learned) < count:
            negative_count, left, right, pair = heapq.heappop(self._queue)
            is_current = self._pair_counts[pair] == -negative_count
            if is_current and left + right not in self._known:
                self._merge(pair, left, right)

    def _merge(self, pair: IdPair, left: str, right: str) -> None:
        """Learn the piece of a pair: merge the pair in all words, and update counts and queue."""
        new_id = len(self._pieces)
        new_piece = left + right
        self._pieces.append(new_piece)
        self._known.add(new_piece)
        self.learned.append((new_piece, (left, right)))
        changed_pairs: set[IdPair] = set()
        for number in self._places.pop(pair):
            word = self._words[number]
            merged = _merge_pair(word, pair, new_id)
            if len(merged) == len(word):  # an earlier merge has taken the pair from this word
                continue
            occurrences = self._counts[number]
            # Subtract the pairs of the old word, then add those of the merged word.
            changed_pairs |= self._count_pairs(number, -occurrences)
            self._words[number] = merged
            changed_pairs |= self._count_pairs(number, occurrences)
        # Entries with old counts stay in the queue; `learn` skips them.
        self._enqueue(changed_pairs)

    def _count_pairs(self, number: int, occurrences: int) -> set[IdPair]:
        """Add `occurrences` to the count of each pair of word `number`; return the pairs.

        A negative number subtracts. The word stays in `_places`, which `_merge` checks.
        """
        pairs: set[IdPair] = set()
        for pair in pairwise(self._words[number]):
            self._pair_counts[pair] += occurrences
            if occurrences > 0:
                self._places[pair].add(number)
            pairs.add(pair)
        return pairs

    def _enqueue(self, pairs: Iterable[IdPair]) -> None:
        """Put pairs that are frequent enough into the queue.

        Equally frequent pairs are merged in the order of their texts, so that the result does not
        depend on ids or on the order of sets.
        """
        for pair in pairs:
            count = self._pair_counts[pair]
            left, right = (self._pieces[i] for i in pair)
            if count >= MIN_OCCURRENCES and self._can_merge(left, right):
                heapq.heappush(self._queue, (-count, left, right, pair))

    def _can_merge(self, left: str, right: str) -> bool:
        """Return whether SentencePiece could learn such a piece, too."""
        scripts = _scripts_of(left) | _scripts_of(right)
        if self._split_digits and "number" in scripts:
            return False
        is_short_enough = len(left) + len(right) <= self._max_length
        is_one_script = len(scripts) <= 1
        is_one_word = SPACE not in right
        return is_short_enough and is_one_script and is_one_word


def _merge_pair(word: list[int], pair: IdPair, new_id: int) -> list[int]:
    """Return a word with each occurrence of a pair replaced, from the left."""
    merged: list[int] = []
    place = 0
    while place < len(word):
        if place + 1 < len(word) and (word[place], word[place + 1]) == pair:
            merged.append(new_id)
            place += 2
        else:
            merged.append(word[place])
            place += 1
    return merged


@cache
def _scripts_of(piece: str) -> frozenset[str]:
    """Return the scripts of a piece; numbers and other signs count as scripts, marks as none."""
    scripts: set[str] = set()
    for character in piece:
        if character == SPACE or is_mark(character):
            continue
        script = script_of(character) or "sign"
        if is_number(character):
            script = "number"
        # SentencePiece, too, takes kana for Han, because Japanese words mix the two.
        scripts.add("HAN" if script == "KANA" else script)
    return frozenset(scripts)


def _find_used(model: bytes, pieces: Sequence[NewPiece], lines: Sequence[str]) -> list[NewPiece]:
    """Return the pieces that occur in the split lines, their parts, and all characters."""
    splitter = Splitter(add_pieces(model, pieces))
    used: set[str] = set()
    for ids in splitter.encode(lines):
        used.update(splitter.pieces[i] for i in set(ids))
    kept: list[NewPiece] = []
    for piece in reversed(pieces):  # the parts of a piece come before it
        if piece.text in used or not piece.parts:
            kept.append(piece)
            used.update(piece.parts)
    return kept[::-1]


def find_new_rows(tokenizer: Tokenizer, old: Tokenizer) -> tuple[NewRows, NewRows] | None:
    """Return where the rows of a tokenizer that was made from an old one come from, for each side.

    None if it was not: its old pieces do not come first, in their order.
    """
    if tokenizer.models.keys() != old.models.keys():
        return None
    models = list(old.models.values())  # one for both sides, or source then target
    source, target = tokenizer.vocabularies
    old_source, old_target = old.vocabularies
    source_rows = _find_new_rows(source, old_source, models[0])
    target_rows = _find_new_rows(target, old_target, models[-1])
    if source_rows is None or target_rows is None:
        return None
    return source_rows, target_rows


def _find_new_rows(
    pieces: Sequence[str], old_pieces: Sequence[str], old_model: bytes
) -> NewRows | None:
    stays = set(pieces)
    kept = [number for number, piece in enumerate(old_pieces) if piece in stays]
    new = pieces[len(kept) :]
    if [*pieces] != [*(old_pieces[number] for number in kept), *new]:
        return None
    return NewRows(kept, spell_pieces(old_model, new))
