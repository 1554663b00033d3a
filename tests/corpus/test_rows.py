"""The corpus store: rows are what the corpora have, in any order, and are sampled fairly."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.corpora import Corpus, TableCorpus, TextCorpus
from mtkit.corpus import store
from mtkit.corpus.read import UnequalSidesError, hash_of, read_pairs
from mtkit.corpus.store import (
    BLANK_KEY,
    CorpusRows,
    find_repeated,
    find_smallest,
    temporary_rows,
    write_rows,
)
from mtkit.errors import UserError

LINES = ["a dog", "", "  two   dogs ", "개 \u1112\u1161\u11ab", "x" * 3000, "a dog", "\ufffd"]


def write(path: Path, lines: list[str]) -> str:
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def write_corpora(folder: Path) -> list[Corpus]:
    """Write corpora of all kinds of files, with rows whose lines do not follow each other."""
    rows = [f'"{number}\nhere","{number}\nhier"' for number in range(40)]
    table = write(folder / "c.csv", ["source,target", *rows, ",", *rows[:5]])
    texts = write(folder / "a.en", LINES), write(folder / "b.en.gz", LINES * 300)
    same = texts[0]
    return [
        TextCorpus(source=list(texts), target=list(reversed_lines(folder)), target_tag="de"),
        TableCorpus(table=table, source_column="source", target_column="target", tag="<bt>"),
        TextCorpus(source=same, target=same),
        TextCorpus(source=same, target=same),
    ]


def reversed_lines(folder: Path) -> Iterator[str]:
    yield write(folder / "a.de", LINES[::-1])
    yield write(folder / "b.de", LINES[::-1] * 300)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Corpus]:
    return write_corpora(tmp_path_factory.mktemp("corpora"))


@pytest.fixture(scope="module")
def rows(corpora: list[Corpus]) -> Iterator[CorpusRows]:
    with temporary_rows(corpora) as opened:
        yield opened


def test_rows_are_the_pairs_of_the_corpora(rows: CorpusRows, corpora: list[Corpus]) -> None:
    pairs = list(read_pairs(corpora))
    assert len(rows) == len(pairs)
    assert list(rows) == pairs
    for corpus in range(len(corpora)):
        of_corpus = [pair for pair in pairs if pair.corpus == corpus]
        assert list(rows.read(rows.rows_of(corpus))) == of_corpus


def test_the_key_of_a_row_is_the_hash_of_its_pair(rows: CorpusRows, corpora: list[Corpus]) -> None:
    keys = [BLANK_KEY if pair.blank else hash_of(pair) for pair in read_pairs(corpora)]
    assert rows.keys.tolist() == keys


@given(st.data())
def test_any_rows_are_read_in_any_order(rows: CorpusRows, data: st.DataObject) -> None:
    pairs = list(rows)
    numbers = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    assert list(rows.read(numbers)) == [pairs[number] for number in numbers]
    assert all(rows[number] == pairs[number] for number in numbers[:3])


def test_other_processes_open_the_same_rows(rows: CorpusRows) -> None:
    copy = pickle.loads(pickle.dumps(rows))
    assert list(copy) == list(rows)
    assert len(pickle.dumps(rows)) < 5000


@pytest.mark.parametrize(("pairs", "size"), [(1, 1 << 20), (7, 1 << 20), (1000, 1), (1000, 5000)])
def test_chunks_are_all_rows_and_bounded(
    rows: CorpusRows, pairs: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CHUNK_PAIRS", pairs)
    monkeypatch.setattr(store, "CHUNK_CHARACTERS", size)
    chunks = list(rows.split(range(len(rows))))
    assert [*chain.from_iterable(chunks)] == [*range(len(rows))]
    for chunk in chunks:
        assert len(chunk) <= pairs
        if len(chunk) > 1:
            texts = [pair.source + pair.target for pair in rows.read(chunk)]
            assert len("".join(texts).encode()) <= size


def test_rows_drawn_among_some_are_some_of_them(rows: CorpusRows) -> None:
    some = rows.rows_of(1)
    drawn = rows.draw(10, seed=1, among=some).tolist()
    assert len(set(drawn)) == 10 and set(drawn) <= set(some)
    assert rows.draw(10**9, seed=1).tolist() == [*range(len(rows))]


def test_files_of_different_lengths_are_refused_or_told(tmp_path: Path) -> None:
    corpus = TextCorpus(
        source=write(tmp_path / "a", ["x"] * 3), target=write(tmp_path / "b", ["x"] * 5)
    )
    with pytest.raises(UnequalSidesError), temporary_rows(corpus):
        pass
    with temporary_rows(corpus, allow_unequal=True) as rows:
        assert len(rows) == 3
        (told,) = rows.unequal
        assert "a has 3 lines" in told and "b has 5" in told


def test_blank_corpora_have_rows_without_text(tmp_path: Path) -> None:
    blank = write(tmp_path / "a", [""] * 3)
    with temporary_rows(TextCorpus(source=blank, target=blank)) as rows:
        assert [pair.blank for pair in rows] == [True] * 3
        assert rows.keys.tolist() == [BLANK_KEY] * 3


@pytest.mark.parametrize("name", ["text", "ends", "keys"])
def test_rows_whose_files_do_not_fit_together_are_refused(
    name: str, tmp_path: Path, corpora: list[Corpus]
) -> None:
    write_rows(tmp_path, read_pairs(corpora))
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:-16])
    with pytest.raises(UserError, match="is damaged; delete it"):
        CorpusRows(tmp_path, corpora)


keys = st.lists(st.integers(0, 20) | st.just(BLANK_KEY) | st.integers(0, BLANK_KEY))


@given(keys)
def test_a_key_is_repeated_if_an_equal_one_comes_before_it(numbers: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "KEY_BLOCK", 3)
        repeated = find_repeated(np.array(numbers, np.uint64))
    expected = [
        number in numbers[:place] and number != BLANK_KEY for place, number in enumerate(numbers)
    ]
    assert repeated.tolist() == expected


@given(keys, st.integers(0, 9))
def test_the_smallest_keys_are_found_in_their_order(numbers: list[int], count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "KEY_BLOCK", 3)
        smallest = find_smallest(np.array(numbers, np.uint64), count)
    distinct = sorted({*numbers} - {BLANK_KEY})[:count]
    assert smallest.tolist() == [numbers.index(number) for number in distinct]
