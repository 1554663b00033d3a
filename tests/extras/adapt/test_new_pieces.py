"""New pieces for a given tokenizer: old text keeps its split, and ids keep their meaning."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from mtkit.config.settings import TokenizerSettings
from mtkit.errors import UserError
from mtkit.extras.adapt.new_pieces import (
    add_pieces,
    extend_tokenizer,
    find_new_rows,
    learn_pieces,
    spell_pieces,
)
from mtkit.symbols import SPACE, UNK
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_model

OLD = [
    "a dog runs over the green field",
    "two men sit in a boat on the water",
    "the men are watching the dog run in 1990",
    "a boat is on the green water",
] * 5
NEW = [
    "собака бежит по полю",
    "собака бежит домой",
    "watching watchmen watch the watchtower 1990 1990",
    "the watchtower is watched by watchmen",
] * 5
KINDS = ["bpe", "unigram"]


def trained(kind: str, *, byte_fallback: bool = True, size: int = 36) -> bytes:
    """Return a model with so many pieces besides bytes."""
    settings = TokenizerSettings.model_validate(
        {
            "type": kind,
            "vocab_size": size + 256 * byte_fallback,
            "byte_fallback": byte_fallback,
        }
    )
    return train_model(OLD, settings, "spm.model")


def grown(model: bytes, count: int, lines: list[str] = NEW) -> tuple[list[str], bytes]:
    pieces = learn_pieces(model, lines, count, split_digits=True)
    return [piece.text for piece in pieces], add_pieces(model, pieces)


def split(model: bytes, text: str) -> list[str]:
    pieces: list[str] = SentencePieceProcessor(model_proto=model).encode(text, return_type=str)
    return pieces


@pytest.mark.parametrize("kind", [*KINDS, "char"])
def test_without_new_pieces_a_model_keeps_its_bytes(kind: str) -> None:
    model = trained(kind)
    assert grown(model, 0) == grown(model, 10, ["a", "б"]) == ([], model)


@pytest.mark.parametrize("count", [3, 20, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_at_most_so_many_pieces_follow_the_old_ones_characters_first(kind: str, count: int) -> None:
    model = trained(kind)
    texts, larger = grown(model, count)
    before, after = (
        Tokenizer({Path("spm.model"): content}).vocabularies[0] for content in (model, larger)
    )
    assert after[: len(before)] == before
    assert after[len(before) :] == texts
    assert 0 < len(texts) <= count
    lengths = [len(text) > 1 for text in texts]
    assert lengths == sorted(lengths)
    letters = set("".join(NEW[:2])) - {" "}
    assert len(letters & set(texts)) == min(count, len(letters))


WORDS = sorted({word for line in [*OLD, *NEW] for word in line.split()})
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=8).map(" ".join)


@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_without_new_pieces_is_split_as_before(kind: str, byte_fallback: bool) -> None:
    model = trained(kind, byte_fallback=byte_fallback)
    texts, larger = grown(model, 60)

    @given(TEXTS)
    def check(text: str) -> None:
        pieces = split(larger, text)
        if set(texts).isdisjoint(pieces):
            assert pieces == split(model, text)
        if byte_fallback:
            both = [SentencePieceProcessor(model_proto=content) for content in (model, larger)]
            old, new = (processor.decode(processor.encode(text)) for processor in both)
            assert old == new

    check()
    for line in OLD:
        if set(texts).isdisjoint(split(larger, line)):
            assert split(larger, line) == split(model, line)


@pytest.mark.parametrize("kind", KINDS)
def test_the_new_text_uses_every_new_piece_or_a_longer_one_and_becomes_shorter(kind: str) -> None:
    model = trained(kind)
    texts, larger = grown(model, 60)
    used = {piece for line in NEW for piece in split(larger, line)}
    for text in texts:
        assert text in used or any(text in longer and longer in used for longer in texts)
    before, after = (sum(len(split(content, line)) for line in NEW) for content in (model, larger))
    assert after < before / 2


@pytest.mark.parametrize("kind", KINDS)
def test_new_pieces_are_within_words_scripts_and_numbers(kind: str) -> None:
    lines = ["кот cat котcat 2024 20-24 cat. cat."] * 9
    texts, _ = grown(trained(kind), 200, lines)
    assert {"кот", f"{SPACE}кот"} & set(texts)
    for text in texts:
        assert SPACE not in text[1:]
        word = text.removeprefix(SPACE)
        assert len(word) == 1 or word.isalpha()
        assert not (set(word) & set("кот") and set(word) & set("cat"))
    pieces = learn_pieces(trained(kind), ["in 2024 and 2024"] * 9, 50, split_digits=False)
    assert any("20" in piece.text for piece in pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_piece_is_spelled_by_old_ones(kind: str) -> None:
    model = trained(kind)
    texts, _ = grown(model, 60)
    old = SentencePieceProcessor(model_proto=model)
    for text, ids in zip(texts, spell_pieces(model, texts), strict=True):
        assert max(ids) < old.vocab_size()
        assert UNK not in ids
        without_space = old.id_to_piece(ids)
        if not any(old.is_byte(ids)):
            assert "".join(without_space) == text
        else:
            assert old.decode(ids) == text.replace(SPACE, " ").lstrip()
    no_bytes = trained(kind, byte_fallback=False)
    assert spell_pieces(no_bytes, ["ж"]) == [[UNK]]


def test_learning_is_deterministic_and_can_be_repeated() -> None:
    model = trained("bpe")
    first = grown(model, 30)
    assert grown(model, 30) == first
    _, again = grown(first[1], 30)
    assert (
        Tokenizer({Path("a"): again}).vocabularies[0][: 292 + 30]
        == (Tokenizer({Path("a"): first[1]}).vocabularies[0])
    )


def test_separate_models_grow_apart_and_models_with_common_ids_together() -> None:
    source, target = trained("unigram"), trained("bpe", size=50)
    names = Path("spm.source.model"), Path("spm.target.model")
    old = Tokenizer(dict(zip(names, (source, target), strict=True)))
    sides = NEW[:2] * 5, NEW[2:4] * 5
    new = extend_tokenizer(old, sides, 10, split_digits=True)
    rows = find_new_rows(new, old)
    assert rows is not None and find_new_rows(old, new) != rows
    assert [list(side.kept) for side in rows] == [list(range(292)), list(range(306))]
    assert [len(side.spellings) for side in rows] == [10, 10]
    assert (new.source_vocab, new.target_vocab) == (302, 316)
    assert any("с" in piece for piece in new.vocabularies[0][292:])
    assert any("watch" in piece for piece in new.vocabularies[1][306:])

    old = Tokenizer(dict(zip(names, (source, source), strict=True)))
    new = extend_tokenizer(old, sides, 20, split_digits=True)
    assert new.vocabularies[0] == new.vocabularies[1]
    assert new.source_vocab == 312
    (ids,) = new.encode_source([NEW[0]])
    assert max(ids) >= 292
    assert all(i < 292 for i in new.encode_source([OLD[0]])[0])
    assert new.decode(new.encode_target([NEW[2]])) == [NEW[2]]


def test_a_model_of_whole_words_takes_no_pieces() -> None:
    model = trained("char")
    assert {len(text) for text in grown(model, 50)[0]} == {1}
    words = SentencePieceProcessor(model_proto=_word_model())
    with pytest.raises(UserError, match="whole words"):
        learn_pieces(words.serialized_model_proto(), NEW, 5, split_digits=True)


def _word_model() -> bytes:
    from io import BytesIO

    from sentencepiece import SentencePieceTrainer

    model = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(OLD),
        model_writer=model,
        model_type="word",
        vocab_size=20,
        minloglevel=3,
    )
    return model.getvalue()
