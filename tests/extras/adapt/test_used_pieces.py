"""A tokenizer without unused pieces splits the text that it was cut for as before."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mtkit.config.settings import TokenizerSettings
from mtkit.extras.adapt.new_pieces import extend_tokenizer, find_new_rows
from mtkit.extras.adapt.used_pieces import drop_unused
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_model

PARTS = ["watch", "tower", "green", "house", "boat", "water", "fall", "light", "moon", "book"]
PARTS += ["case", "hand", "shake", "key", "board"]
WORDS = [first + second for first in PARTS for second in PARTS]
LINES = [f"the {first} is a {second} in 1990" for first, second in pairwise(WORDS)]
USED = LINES[:20]
NAMES = Path("spm.source.model"), Path("spm.target.model")


def trained(kind: str, lines: list[str] = LINES, *tags: str) -> bytes:
    settings = TokenizerSettings.model_validate(
        {"type": kind, "vocab_size": 314 if kind == "unigram" else 340, "byte_fallback": True}
    )
    return train_model(lines, settings, "spm.model", tags)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_used_text_is_split_as_before_and_every_text_can_be_spelled(kind: str) -> None:
    old = Tokenizer({Path("spm.model"): trained(kind, LINES, "yor")})
    new = drop_unused(old, (USED, USED[:1]))
    rows, _ = find_new_rows(new, old) or (None, None)
    assert rows is not None and not rows.spellings and len(rows.kept) < old.source_vocab - 5
    assert new.tags.keys() == {"yor"}
    for line in USED:
        (before,), (after,) = old.encode_source([line]), new.encode_source([line])
        assert [rows.kept[i] for i in after] == before
    assert new.decode(new.encode_target(LINES)) == LINES
    assert all(len(piece) > 1 for piece in set(old.vocabularies[0]) - set(new.vocabularies[0]))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_text_that_uses_all_pieces_changes_no_bit(kind: str) -> None:
    old = Tokenizer({Path("spm.model"): trained(kind)})
    whole = drop_unused(old, (LINES, old.vocabularies[0]))
    assert drop_unused(whole, (LINES, old.vocabularies[0])).models == whole.models


def test_models_with_common_ids_lose_the_same_pieces_and_others_lose_their_own() -> None:
    model = trained("unigram")
    old = Tokenizer(dict(zip(NAMES, (model, model), strict=True)))
    new = drop_unused(old, (USED, LINES[:1]))
    assert new.vocabularies[0] == new.vocabularies[1]
    assert new.encode_target(LINES[:1]) == new.encode_source(LINES[:1])
    apart = Tokenizer(dict(zip(NAMES, (model, trained("bpe", USED)), strict=True)))
    new = drop_unused(apart, (LINES[:1], USED))
    assert new.source_vocab < apart.source_vocab
    assert new.target_pieces(new.encode_target(USED[:1])[0]) == apart.target_pieces(
        apart.encode_target(USED[:1])[0]
    )


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_new_pieces_are_added_to_what_stays(kind: str) -> None:
    old = Tokenizer({Path("spm.model"): trained(kind)})
    kept = drop_unused(old, (USED, USED))
    new = extend_tokenizer(kept, (["собака бежит"] * 5, USED), 9, split_digits=True)
    rows, _ = find_new_rows(new, old) or (None, None)
    assert rows is not None
    assert len(rows.kept) == kept.source_vocab and len(rows.spellings) == 9
