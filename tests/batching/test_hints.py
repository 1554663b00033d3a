"""Pairs with hints and placeholders: what they look like, and that all others stay as they were."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folders import tokenizer_in, train
from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.recipe import batches_recipe, tokenizer_recipe
from mtkit.batching import encode, hints
from mtkit.batching.build import build_batches, open_batches
from mtkit.batching.hints import Edit, HintWriter, apply_edits, hint
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair, read_pairs
from mtkit.corpus.text import normalise
from mtkit.errors import SettingError
from mtkit.tokenizer.hints import (
    HINT_BEGIN,
    HINT_END,
    HINT_MEANS,
    HINT_SYMBOLS,
    PLACEHOLDERS,
    SOURCE_SYMBOLS,
)
from mtkit.tokenizer.train_spm import check_hints, train_tokenizer

NOUNS = {"dog": "Hund", "cat": "Katze", "boat": "Boot", "Spain": "Spain", "house": "Haus"}
VERBS = {"sees": "sieht", "likes": "mag", "finds": "findet", "buys": "kauft"}


def sentences(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Return different sentences of a small language."""
    random = Random(seed)
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        subject, verb, thing = (random.choice(list(kind)) for kind in (NOUNS, VERBS, NOUNS))
        number = random.randrange(1000)
        source = f"the {subject} {verb} {number} {thing}, the end."
        pairs[source] = f"{NOUNS[subject]} {VERBS[verb]} {number} {NOUNS[thing]}, Ende."
    return list(pairs.items())


SENTENCES = sentences(300)
TEXTS = [text for pair in SENTENCES for text in pair]
TOKENIZER = train(TEXTS, vocab_size=400, user_defined_symbols=list(HINT_SYMBOLS))


def as_pairs(texts: list[tuple[str, str]]) -> list[Pair]:
    return [Pair(*sides, 0, "file", line) for line, sides in enumerate(texts, 1)]


def write_all(texts: list[tuple[str, str]], seed: int = 1) -> list[Pair]:
    """Return the pairs whose words are linked with hints and placeholders."""
    return HintWriter(texts, TOKENIZER, 1.0, seed).write(as_pairs(texts))


def symbols_in(text: str) -> list[str]:
    return [character for character in text if character in HINT_SYMBOLS]


def check_form(pair: Pair) -> None:
    """Check the form of a written pair by the definition of hints and placeholders."""
    assert not set(pair.target).intersection(SOURCE_SYMBOLS)
    in_source = [symbol for symbol in symbols_in(pair.source) if symbol in PLACEHOLDERS]
    in_target = [symbol for symbol in symbols_in(pair.target) if symbol in PLACEHOLDERS]
    assert Counter(in_source) == Counter(in_target)
    assert max(Counter(in_source).values(), default=1) == 1
    first = PLACEHOLDERS.index(in_source[0]) if in_source else 0
    assert in_source == list(PLACEHOLDERS[first : first + len(in_source)])
    of_hints = [symbol for symbol in symbols_in(pair.source) if symbol in SOURCE_SYMBOLS]
    assert of_hints == list(SOURCE_SYMBOLS) * (len(of_hints) // 3)
    for part in pair.source.split(HINT_BEGIN)[1:]:
        term, translation = part.partition(HINT_END)[0].split(HINT_MEANS)
        assert term.strip() and translation.strip()
        assert term.startswith(" ") == translation.startswith(" ")
        assert not set(term + translation).intersection(PLACEHOLDERS)


def translations_in(source: str) -> list[str]:
    """Return the translations that the hints of a source ask for."""
    parts = source.split(HINT_MEANS)[1:]
    return [part.partition(HINT_END)[0].strip() for part in parts]


# The written pairs


def test_hints_and_placeholders_have_their_form() -> None:
    written = write_all(SENTENCES)
    assert len(written) == len(SENTENCES)
    for pair in written:
        check_form(pair)
    assert {symbol for pair in written for symbol in symbols_in(pair.source)} == set(HINT_SYMBOLS)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=1, max_size=8))
def test_the_form_does_not_depend_on_the_text(texts: list[tuple[str, str]]) -> None:
    texts = [(normalise(source), normalise(target)) for source, target in texts]
    for pair in write_all(texts * 3):
        check_form(pair)


def test_each_hint_is_obeyed_by_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "BASE_FORM", 0.0)
    obeyed = 0
    other = 0
    for pair in write_all(SENTENCES):
        _, target = SENTENCES[pair.line - 1]
        for translation in translations_in(pair.source):
            assert translation in pair.target
            obeyed += 1
            other += translation not in target
    assert other > obeyed / 3  # a model must read the hints


def test_a_hint_may_have_the_base_form_of_the_word_in_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, probability in (("OTHER_TARGET", 0.0), ("BASE_FORM", 1.0), ("LONGER_TERM", 0.0)):
        monkeypatch.setattr(hints, name, probability)
    texts = [(f"a dog {number}", f"ein Hund {number}") for number in range(100)]
    texts += [(f"two dogs {number}", f"zwei Hunde {number}") for number in range(40)]
    base = f"{HINT_MEANS} Hund{HINT_END}"
    assert any(base in pair.source and "Hunde" in pair.target for pair in write_all(texts))


def test_the_rest_of_a_pair_stays() -> None:
    text = "one two three"
    edits = [Edit(13, 13, "!"), Edit(4, 7, "2"), Edit(0, 0, "<")]
    assert apply_edits(text, edits) == "<one 2 three!"
    assert apply_edits(text, []) == text


def test_a_space_before_a_term_moves_into_the_hint() -> None:
    begin, means, end = SOURCE_SYMBOLS
    text = "A dog runs."
    inside = apply_edits(text, [hint(text, 2, 5, "dog", "Hund")])
    assert inside == f"A{begin} dog{means} Hund{end} runs."
    first = apply_edits(text, [hint(text, 0, 1, "A", "Ein")])
    assert first == f"{begin}A{means}Ein{end} dog runs."
    unspaced = apply_edits("我喜欢狗", [hint("我喜欢狗", 1, 3, "喜欢", "like")])
    assert unspaced == f"我{begin}喜欢{means}like{end}狗"
    (plain,) = TOKENIZER.encode_source([text])
    (ids,) = TOKENIZER.encode_source([inside])
    pieces = TOKENIZER.source_pieces(ids)
    without = [*pieces[: pieces.index(means)], *pieces[pieces.index(end) :]]
    assert [piece for piece in without if piece not in SOURCE_SYMBOLS] == TOKENIZER.source_pieces(
        plain
    )


def test_the_share_of_pairs_is_as_asked_for() -> None:
    texts = sentences(2000)
    writer = HintWriter(texts[:300], TOKENIZER, 0.1, seed=1)
    assert 140 < len(writer.write(as_pairs(texts))) < 260


def test_what_is_random_depends_on_the_seed_and_the_pair_but_not_on_other_pairs() -> None:
    assert write_all(SENTENCES) == write_all(SENTENCES)
    assert write_all(SENTENCES) != write_all(SENTENCES, seed=2)
    writer = HintWriter(SENTENCES, TOKENIZER, 0.5, seed=1)
    pairs = as_pairs(SENTENCES)
    middle = len(pairs) // 3
    assert writer.write(pairs) == writer.write(pairs[:middle]) + writer.write(pairs[middle:])


def test_scripts_without_spaces_have_hints_too() -> None:
    random = Random(1)
    words = {"我": "I", "你": "you", "喜欢": "like", "看见": "see", "狗": "dogs", "书": "books"}
    texts = []
    for _ in range(200):
        chosen = random.sample(list(words), 3)
        texts.append((" ".join(words[word] for word in chosen), "".join(chosen) + "。"))
    written = write_all(texts)
    assert len(written) > 150
    for pair in written:
        check_form(pair)
        without_symbols = "".join(c for c in pair.target if c not in HINT_SYMBOLS)
        assert " " not in without_symbols.strip() or pair.target.startswith(PLACEHOLDERS)


# In the store


def config(folder: Path, share: float, **more: Any) -> Config:
    paths = {"source": str(folder / "train.en"), "target": str(folder / "train.de")}
    for side, path in enumerate(paths.values()):
        lines = [f"{pair[side]}\n" for pair in SENTENCES]
        Path(path).write_text("".join(lines), encoding="utf-8")
    values: dict[str, Any] = {
        "run": str(folder / "run"),
        "data": {"train": paths, "valid": paths},
        "tokenizer": {"vocab_size": 400},
        "batching": {"hints": share},
        "model": {"kind": "transformer", "tie": "target"},
        "training": {"steps": 1},
    }
    return Config.model_validate(values | more)


def built(folder: Path, share: float) -> Artifact:
    folder.mkdir(exist_ok=True)
    made = config(folder, share)
    train_tokenizer(made)
    return build_batches(made)


def contents(artifact: Artifact) -> dict[str, bytes]:
    return {name: (artifact.path / name).read_bytes() for name in artifact.manifest["files"]}


def test_hinted_pairs_are_added_to_the_training_pairs(tmp_path: Path) -> None:
    artifact = built(tmp_path, 0.5)
    data = open_batches(artifact.path)
    tokenizer = tokenizer_in(tmp_path / "run" / "tokenizer")
    ids, lengths = data.train.side(np.arange(len(data.train)), target=False)
    texts = []
    for length in lengths.tolist():
        texts.append(tokenizer.decode_source([ids[:length].tolist()])[0])
        ids = ids[length:]
    assert texts[: len(SENTENCES)] == [source for source, _ in SENTENCES]
    added = texts[len(SENTENCES) :]
    assert 100 < len(added) < 200
    assert all(symbols_in(text) for text in added)
    assert artifact.manifest["report"]["train"]["hinted"] == len(added)
    assert len(data.valid) == len(SENTENCES)  # plain


@pytest.mark.parametrize("threads", [1, 3])
def test_the_store_does_not_depend_on_the_number_of_threads(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = contents(built(tmp_path / "a", 0.5))
    monkeypatch.setattr(encode, "count_cores", lambda: threads)
    assert contents(built(tmp_path / "b", 0.5)) == expected


def test_hinted_pairs_that_are_too_long_are_left_out(tmp_path: Path) -> None:
    made = config(tmp_path, 1.0)
    tokenizer = train_tokenizer(made)
    ids = tokenizer_in(tokenizer.path).encode_target(TEXTS)
    longest = max(map(len, ids))
    shorter = made.batching.model_copy(update={"max_length": longest})
    artifact = build_batches(made.model_copy(update={"batching": shorter}))
    data = open_batches(artifact.path)
    assert data.train.lengths.max() <= longest
    assert artifact.manifest["report"]["train"]["kept"] == len(SENTENCES)
    assert artifact.manifest["report"]["train"]["dropped"] == {}


def test_without_hints_nothing_has_their_symbols_and_no_recipe_changes(tmp_path: Path) -> None:
    off = config(tmp_path, 0.0)
    tokenizer = tokenizer_in(train_tokenizer(off).path)
    assert not tokenizer.has_hints
    assert "hinted" not in build_batches(off).manifest["report"]["train"]
    # Manifests of earlier versions lack the setting.
    assert "batching.hints" not in tokenizer_recipe(off).resolved()
    recorded = batches_recipe(off).resolved()
    del recorded["batching"]["hints"]
    assert batches_recipe(off).difference(recorded) is None


def test_the_share_changes_the_batches_but_not_the_vocabulary(tmp_path: Path) -> None:
    some, many = config(tmp_path, 0.1), config(tmp_path, 0.5)
    assert tokenizer_recipe(many).difference(tokenizer_recipe(some).resolved()) is None
    assert batches_recipe(many).difference(batches_recipe(some).resolved()) is not None
    off = tokenizer_recipe(config(tmp_path, 0.0))
    assert tokenizer_recipe(some).difference(off.resolved()) is not None
    assert off.difference(tokenizer_recipe(some).resolved()) is not None


def test_batches_with_hints_depend_on_the_seed(tmp_path: Path) -> None:
    for share, is_dependent in ((0.0, False), (0.1, True)):
        first = batches_recipe(config(tmp_path, share, seed=1)).resolved()
        change = batches_recipe(config(tmp_path, share, seed=2)).difference(first)
        assert (change is not None) == is_dependent


def test_two_vocabularies_cannot_have_hints(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"batching\.hints needs a joint tokenizer"):
        config(tmp_path, 0.1, tokenizer={"vocab_size": 400, "joint": False})


def test_a_model_without_the_symbols_cannot_be_adapted_with_hints(tmp_path: Path) -> None:
    plain = train(TEXTS)
    check_hints(plain, config(tmp_path, 0.0))
    check_hints(TOKENIZER, config(tmp_path, 0.1))
    with pytest.raises(SettingError, match="no symbols for hints"):
        check_hints(plain, config(tmp_path, 0.1))


def test_corpora_lose_the_symbols(tmp_path: Path) -> None:
    made = config(tmp_path, 0.1)
    path = tmp_path / "train.en"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[0] = f"a{HINT_BEGIN} dog{PLACEHOLDERS[0]} \ufdd0\ufdef"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    pair = next(read_pairs(made.data.train))
    assert pair.source == "a dog"
