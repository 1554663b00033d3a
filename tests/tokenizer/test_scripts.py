"""Text of many scripts passes through corpus, tokenizer and ids, and comes back as it was."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.settings import Config
from mtkit.corpus.read import read_pairs
from mtkit.corpus.text import normalise
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_tokenizer

LINES = {
    "Latin, with signs": "№ 5, n.º 3, 1.ª, 10³ m², ½ l, H₂O, 5 µm, ﬁn, Å, ™…",
    "Latin, Vietnamese": "Tôi đọc một quyển sách ở thư viện hôm qua.",
    "Latin, Yoruba": "Ọ̀rọ̀ ọmọdé ni: ẹ̀kọ́ ṣe pàtàkì, ó sì ń dùn.",
    "Latin, French": "« Où vont-ils ? » — l\u2019été, 10\u202f000\xa0€ ; ça…",
    "Latin, Turkish": "İstanbul'da ılık bir IŞIK.",
    "Cyrillic": "Ёлка — «ёж»; їжак, №\xa05.",
    "Greek": "Ὁ ἄνθρωπος· τί ἐστιν; Ά΄",
    "Arabic": "اللّٰهُ ﷲ ، السّلام عليكم؟ ١٢٣ ﻻ ـــ",
    "Arabic, Persian": "آن\u200cها می\u200cروند؛ کتاب\u200cهای ما ۱۲۳.",
    "Hebrew": "שָׁלוֹם, צה\u05f4ל; \ufb31.",
    "Devanagari": "क्\u200dष, श्री\u200dमान् और ज़िन्दगी — ठीक है।",
    "Bengali": "আমি একটি বাড়ি দেখি, র\u200d্যাব। ৎ য়",
    "Tamil": "தமிழ் ஸ்ரீ, க\u0bcaடு.",
    "Malayalam": "അവൻ\u200d പറഞ്ഞു: നന്\u200dമ.",
    "Sinhala": "ශ්\u200dරී ලංකාව, ක්\u200dෂ.",
    "Thai": "น้ำ กำลัง ๆ ฯลฯ ๑๒๓ คำนำ",
    "Khmer": "ភាសា\u200bខ្មែរ ១២៣។",
    "Burmese": "မြန်မာဘာသာ၊ ၁၂၃။",
    "Tibetan": "བོད་ཡིག༌ ༄༅།།",
    "Ethiopic": "ሰላም፣ ዓለም። ፳፻፮",
    "Georgian": "გამარჯობა, მსოფლიო.",
    "Armenian": "Բարեւ, աշխա՛րհ։ և",
    "Han": "他说：“好，（真的）吗？”——１２３％　是；ＡＢＣ！",
    "Han, compatible": "㍿ ㈱ ① Ⅷ ㎏ ℃ 〒",
    "Kana": "ｶﾀｶﾅとカタカナ、「ガ」～！？…゛",
    "Hangul": "한국어 ㄱㄴ ㈜ 『책』．",
    "Emoji": "👨\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 ❤\ufe0f 1\ufe0f\u20e3",
}


def tokenizer_of(folder: Path, kind: str, **settings: object) -> tuple[Tokenizer, list[str]]:
    """Train a tokenizer on LINES as both sides, and return it with the targets of the corpus."""
    text = "".join(f"{line}\n" for line in LINES.values())
    (folder / "source").write_text(text, encoding="utf-8", newline="")
    decomposed = unicodedata.normalize("NFD", text)
    (folder / "target").write_text(decomposed, encoding="utf-8", newline="")
    paths = {"source": str(folder / "source"), "target": str(folder / "target")}
    config = Config.model_validate(
        {
            "run": str(folder / "run"),
            "data": {"train": paths, "valid": paths},
            "tokenizer": {"type": kind, "vocab_size": 630, **settings},
            "model": {"kind": "transformer", "tie": "target"},
            "training": {"steps": 1},
        }
    )
    targets = [pair.target for pair in read_pairs(config.data.train)][: len(LINES)]
    return Tokenizer.load(train_tokenizer(config)), targets


@pytest.fixture(scope="module", params=["bpe", "unigram", "char", "bpe, per side"])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, list[str]]:
    kind, *apart = request.param.split(", ")
    return tokenizer_of(tmp_path_factory.mktemp(kind), kind, joint=not apart)


def test_every_script_comes_back(trained: tuple[Tokenizer, list[str]]) -> None:
    tokenizer, targets = trained
    assert targets == [unicodedata.normalize("NFC", line) for line in LINES.values()]
    assert tokenizer.decode(tokenizer.encode_target(targets)) == targets


def test_sources_keep_what_targets_keep(trained: tuple[Tokenizer, list[str]]) -> None:
    tokenizer, targets = trained
    if tokenizer.source_vocab == tokenizer.target_vocab:
        assert tokenizer.encode_source(targets) == tokenizer.encode_target(targets)


@given(line=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁")))
def test_any_text_comes_back(trained: tuple[Tokenizer, list[str]], line: str) -> None:
    tokenizer, _ = trained
    text = normalise(line)
    (decoded,) = tokenizer.decode(tokenizer.encode_target([text]))
    assert decoded.split() == text.split()


def test_unseen_compatible_characters_are_read_as_seen_ones(tmp_path: Path) -> None:
    for name in ("source", "target"):
        (tmp_path / name).write_text("A fine dog runs 12 km.\n" * 50, encoding="utf-8")
    paths = {"source": str(tmp_path / "source"), "target": str(tmp_path / "target")}
    config = Config.model_validate(
        {
            "run": str(tmp_path / "run"),
            "data": {"train": paths, "valid": paths},
            "tokenizer": {"vocab_size": 290},
            "training": {"steps": 1},
        }
    )
    tokenizer = Tokenizer.load(train_tokenizer(config))
    odd = "Ａ ﬁne\u200b dog\xadruns\xa0１２ ㎞.".replace("\xad", " ")
    assert tokenizer.encode_source([odd]) == tokenizer.encode_source(["A fine dog runs 12 km."])
    assert tokenizer.decode(tokenizer.encode_target([odd])) == [odd]
    offsets = tokenizer.source_offsets(odd)
    assert len(offsets) == len(tokenizer.encode_source([odd])[0])
    assert offsets == sorted(offsets) and offsets[-1] == len(odd) - 1


def has_digit(piece: str) -> bool:
    """Return whether a subword that is no byte has a decimal digit of any script."""
    return any(unicodedata.category(character) == "Nd" for character in piece)


def train_on(lines: list[str], folder: Path, **settings: object) -> Tokenizer:
    """Train a tokenizer on the lines as both sides."""
    folder.mkdir()
    path = folder / "text"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    corpus = {"source": str(path), "target": str(path)}
    config = Config.model_validate(
        {
            "run": str(folder / "run"),
            "data": {"train": corpus, "valid": corpus},
            "tokenizer": settings,
            "training": {"steps": 1},
        }
    )
    return Tokenizer.load(train_tokenizer(config))


ZEROS = "0٠۰०০௦๐໐၀០０𝟎"
"""The digit zero of some scripts; the nine other digits follow it in Unicode."""


@pytest.mark.parametrize("normalization", ["identity", "nmt_nfkc", "nfkc"])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_every_digit_of_every_script_is_a_subword(
    kind: str, normalization: str, tmp_path: Path
) -> None:
    random = Random(1)
    lines = ["".join(random.choices("abcde ", k=60)) for _ in range(50)]
    for zero in ZEROS:
        digits = [chr(ord(zero) + value) for value in range(10)]
        numbers = ["".join(random.choices(digits, k=3)) for _ in range(5)]
        lines += [f"{number} a{number}b {number}½" for number in numbers * 10]
    pieces: dict[bool, set[str]] = {}
    for is_split in (True, False):
        tokenizer = train_on(
            lines,
            tmp_path / str(is_split),
            type=kind,
            normalization=normalization,
            split_digits=is_split,
            vocab_size=450,
        )
        vocabulary = tokenizer.target_pieces(list(range(tokenizer.target_vocab)))
        texts = [piece for piece in vocabulary if not piece.startswith("<0x")]
        pieces[is_split] = {text for text in texts if any(map(is_digit, text))}
    assert all(map(is_digit, pieces[True]))
    assert any(len(piece) > 2 for piece in pieces[False])
    assert {unicodedata.decimal(piece) for piece in pieces[True]} == set(range(10))


def is_digit(text: str) -> bool:
    """Return whether the text is a decimal digit of some script."""
    return len(text) == 1 and unicodedata.category(text) == "Nd"


def test_numbers_are_spelled_digit_by_digit_wherever_they_stand(tmp_path: Path) -> None:
    line = "2,837,752 of 4.5% cost $10.00 in 1999, x86_64 or 32bit; ١٢٣ کتاب ۱۲۳ ２０円"
    tokenizer = train_on([line] * 50, tmp_path / "numbers", vocab_size=320)
    (ids,) = tokenizer.encode_target([line])
    digits = [piece for piece in tokenizer.target_pieces(ids) if any(map(is_digit, piece))]
    assert digits == list(filter(is_digit, line))
    assert tokenizer.decode([ids]) == [line]
