"""Laws of stage 1: text survives, ids are SentencePiece's, training is reproducible."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.recipe import tokenizer_recipe
from mtkit.config.settings import Config
from mtkit.corpus.store import temporary_rows
from mtkit.errors import UserError
from mtkit.symbols import BOS, EOS, PAD, UNK
from mtkit.tokenizer.codec import Tokenizer, read_model
from mtkit.tokenizer.pieces import model_from_bytes
from mtkit.tokenizer.train_spm import sample_pairs, train_model, train_tokenizer


def sentences(syllables: str, seed: int) -> list[str]:
    """Return lines of made-up words of the syllables."""
    random = Random(seed)
    pieces = syllables.split()
    words = ["".join(random.choices(pieces, k=random.randint(1, 4))) for _ in range(200)]
    return [" ".join(random.choices(words, k=6)) for _ in range(200)]


ENGLISH = sentences("the big red dog cat sees runs old shy and ing er un small", 1)
KOREAN = sentences("개 가 작 은 고양 이 를 본 다 달 린 크 고 새 로운 집", 2)
any_text = st.text(st.characters(exclude_categories=["Cs"]))


def config(folder: Path, english: list[str], korean: list[str], **tokenizer: Any) -> Config:
    """Write a corpus into `folder` and return a config."""
    paths = {"source": str(folder / "train.en"), "target": str(folder / "train.ko")}
    for path, lines in zip(paths.values(), (english, korean), strict=True):
        Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="")
    return Config.model_validate(
        {
            "run": str(folder / "run"),
            "data": {"train": paths, "valid": paths},
            "tokenizer": {"vocab_size": 400, **tokenizer},
            "model": {"kind": "transformer", "tie": "target"},
            "training": {"steps": 1},
        }
    )


def files(artifact: Artifact) -> dict[str, bytes]:
    return {name: (artifact.path / name).read_bytes() for name in artifact.manifest["files"]}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A joint tokenizer; normalisation `identity` keeps every character but repeated spaces."""
    folder = tmp_path_factory.mktemp("joint")
    return train_tokenizer(config(folder, ENGLISH, KOREAN, normalization="identity"))


@pytest.fixture(scope="module")
def tokenizer(artifact: Artifact) -> Tokenizer:
    return Tokenizer.load(artifact)


@given(any_text)
def test_ids_equal_sentencepieces(artifact: Artifact, tokenizer: Tokenizer, line: str) -> None:
    path = str(artifact.path / "spm.model")
    reference = sentencepiece.SentencePieceProcessor(model_file=path)
    ids = reference.encode(line)
    assert tokenizer.encode_target([line]) == [ids]
    if all(map(tokenizer.can_spell, line)):
        assert tokenizer.encode_source([line]) == [ids]
    assert tokenizer.target_pieces(ids) == reference.encode(line, out_type=str)


def test_special_ids_are_fixed_and_not_decoded(artifact: Artifact, tokenizer: Tokenizer) -> None:
    vocabulary = (artifact.path / "spm.vocab").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in vocabulary[:4]] == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(vocabulary) == tokenizer.target_vocab == tokenizer.source_vocab == 400
    (ids,) = tokenizer.encode_target(["the <s> dog </s>"])
    padded = [BOS, *ids, EOS, PAD, UNK]
    assert tokenizer.decode([padded, [], [EOS]]) == ["the <s> dog </s>", "", ""]
    assert tokenizer.decode([]) == []
    assert tokenizer.encode_source([]) == []


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_equal_corpora_and_settings_give_equal_files(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        size = 300 if kind == "char" else 350
        artifacts.append(
            train_tokenizer(config(Path(), ENGLISH, KOREAN, type=kind, vocab_size=size))
        )
    assert files(artifacts[0]) == files(artifacts[1])
    assert artifacts[0].identity == artifacts[1].identity


def test_separate_models_serve_source_and_target(tmp_path: Path) -> None:
    artifact = train_tokenizer(config(tmp_path, ENGLISH, KOREAN, joint=False, vocab_size=330))
    tokenizer = Tokenizer.load(artifact)
    assert list(tokenizer.models) == ["spm.source.model", "spm.target.model"]
    english, korean = tokenizer.encode_source(ENGLISH[:1]), tokenizer.encode_target(ENGLISH[:1])
    assert len(english[0]) < len(korean[0])
    assert tokenizer.decode(korean) == ENGLISH[:1]


@pytest.mark.parametrize("size", [1, 3])
def test_every_pair_has_the_same_chance_of_being_sampled(tmp_path: Path, size: int) -> None:
    lines = [str(i) for i in range(5)]
    seen = [0] * 5
    with temporary_rows(config(tmp_path, lines, lines).data.train) as rows:
        for seed in range(400):
            sample = sample_pairs(rows, size, seed)
            assert len(sample) == len(set(sample)) == size
            for source, target in sample:
                assert source == target
                seen[int(source)] += 1
    assert all(abs(count - 80 * size) < 45 for count in seen)


def test_a_sample_of_long_lines_is_smaller(tmp_path: Path) -> None:
    lines = [f"{i:05}" for i in range(100)]
    with temporary_rows(config(tmp_path, lines, lines).data.train) as rows:
        for size in (10, 50, 1000):
            sample = rows.draw(size, seed=1, max_bytes=200).tolist()
            assert len(sample) == len(set(sample)) == min(size, 20)
            assert sample == sorted(sample)


def test_the_sample_follows_the_seed(tmp_path: Path) -> None:
    def vocabulary(seed: int) -> bytes:
        settings = config(tmp_path, ENGLISH, KOREAN, sample_lines=50)
        artifact = train_tokenizer(settings.model_copy(update={"seed": seed}))
        return files(artifact)["spm.vocab"]

    first = vocabulary(1)
    assert vocabulary(2) != first
    assert vocabulary(1) == first  # trained again in between


def test_without_byte_fallback_an_unseen_character_is_unknown(tmp_path: Path) -> None:
    artifact = train_tokenizer(
        config(tmp_path, ENGLISH, KOREAN, byte_fallback=False, vocab_size=100)
    )
    (ids,) = Tokenizer.load(artifact).encode_source(["ж"])
    assert UNK in ids
    assert b"<0x" not in files(artifact)["spm.vocab"]


def test_characters_at_the_end_of_very_long_lines_are_learned(tmp_path: Path) -> None:
    long = "가나다라마바사" * 20_000 + "한"
    artifact = train_tokenizer(
        config(tmp_path, [*ENGLISH, long], [*KOREAN, long], vocab_size=330, character_coverage=1.0)
    )
    assert "한" in (artifact.path / "spm.vocab").read_text(encoding="utf-8")


def test_long_lines_of_long_digits_are_learned(tmp_path: Path) -> None:
    lines = ["\N{MATHEMATICAL BOLD DIGIT ONE}\N{MATHEMATICAL BOLD DIGIT TWO}" * 1_000] * 20
    artifact = train_tokenizer(config(tmp_path, lines, lines, vocab_size=262))
    pieces = Tokenizer.load(artifact).vocabularies[0]
    assert "\N{MATHEMATICAL BOLD DIGIT ONE}" in pieces


def test_a_tokenizer_from_before_split_digits_stays_up_to_date(tmp_path: Path) -> None:
    settings = config(tmp_path, ENGLISH, KOREAN)
    recorded = tokenizer_recipe(settings).resolved()
    del recorded["tokenizer"]["split_digits"]
    assert tokenizer_recipe(settings).difference(recorded) is None
    other = tokenizer_recipe(config(tmp_path, ENGLISH, KOREAN, split_digits=False))
    change = other.difference(tokenizer_recipe(settings).resolved())
    assert change is not None and change.describe() == (
        "tokenizer.split_digits was True, now False"
    )


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_vocabulary_too_large_names_the_largest_that_works(
    tmp_path: Path, kind: str, joint: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match=r"tokenizer.vocab_size: 9000 is too large") as caught:
        train_tokenizer(config(tmp_path, ENGLISH, KOREAN, type=kind, joint=joint, vocab_size=9000))
    assert joint != ("of the source side" in str(caught.value))
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "run" / "tokenizer").exists()
    largest = int(str(caught.value).split()[-1])
    target = KOREAN if joint else ENGLISH
    settings = {"type": kind, "joint": joint, "vocab_size": largest}
    artifact = train_tokenizer(config(tmp_path, ENGLISH, target, **settings))
    assert Tokenizer.load(artifact).source_vocab == largest


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vocab_size": 100}, "tokenizer.vocab_size: 100 is too small to hold every character"),
        ({"vocab_size": 100, "type": "char"}, "100 is too small"),
        ({"vocab_size": 8, "byte_fallback": False}, "8 is too small to hold every character"),
    ],
)
def test_a_vocabulary_too_small_is_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        train_tokenizer(config(tmp_path, ENGLISH, KOREAN, **settings))


def test_a_corpus_of_blank_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no text to train a tokenizer on"):
        train_tokenizer(config(tmp_path, ["", "  "], ["", "\u3000"]))


def test_a_file_that_is_not_our_tokenizer_is_refused(artifact: Artifact, tmp_path: Path) -> None:
    def load() -> Tokenizer:
        return Tokenizer({tmp_path / "spm.model": read_model(tmp_path / "spm.model")})

    with pytest.raises(UserError, match="cannot be read"):
        load()
    model = (artifact.path / "spm.model").read_bytes()
    for broken in (b"", model[:1000], b"\0" + model):
        (tmp_path / "spm.model").write_bytes(broken)
        with pytest.raises(UserError, match=r"spm\.model is not a SentencePiece model"):
            load()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=50,
        minloglevel=3,
    )
    with pytest.raises(UserError, match=r"ids of pad, unk, bos and eos are \(-1, 0, 1, 2\)"):
        load()
    os.truncate(tmp_path / "spm.model", 6 << 30)
    with pytest.raises(UserError, match="larger than 64 MiB"):
        load()


def test_a_vocabulary_without_tags_is_sentencepieces_own(tmp_path: Path) -> None:
    settings = config(tmp_path, ENGLISH, KOREAN)
    lines = [line for pair in zip(ENGLISH, KOREAN, strict=True) for line in pair]
    model = train_model(lines, settings.tokenizer, "spm.model")
    assert not list(model_from_bytes(model).trainer_spec.user_defined_symbols)
    assert files(train_tokenizer(settings))["spm.model"] == model
    assert not Tokenizer({tmp_path / "spm.model": model}).source_only


# Existing models


def existing_model(path: Path, **options: Any) -> sentencepiece.SentencePieceProcessor:
    """Train a model with SentencePiece itself, and return it opened."""
    defaults: dict[str, Any] = {"vocab_size": 320, "normalization_rule_name": "identity"}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH + KOREAN),
        model_prefix=str(path.with_suffix("")),
        minloglevel=3,
        **defaults | options,
    )
    return sentencepiece.SentencePieceProcessor(model_file=str(path))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model_type": "bpe"},
        {"model_type": "char", "vocab_size": 60},
        {"byte_fallback": True, "vocab_size": 580, "character_coverage": 0.98},
        {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
        {"unk_id": 1, "bos_id": -1, "eos_id": 0},  # as in Marian
        {"unk_id": 3, "bos_id": 0, "eos_id": 2, "pad_id": 1},  # as in fairseq
        {"unk_piece": "UNK", "bos_piece": "BOS", "eos_piece": "EOS"},
        {"user_defined_symbols": "<2ko>,<2en>", "control_symbols": "<mask>"},
    ],
)
def test_an_existing_model_splits_text_as_before(tmp_path: Path, options: dict[str, Any]) -> None:
    before = existing_model(tmp_path / "own.model", **options)
    settings = config(tmp_path, ENGLISH, KOREAN, model=str(tmp_path / "own.model"))
    tokenizer = Tokenizer.load(train_tokenizer(settings))
    lines = [*ENGLISH[:20], *KOREAN[:20], "<2ko> the big 개", "Ж 1"]
    ids = tokenizer.encode_target(lines)
    pieces = [[tokenizer.target_pieces([i])[0] if i != UNK else "?" for i in line] for line in ids]
    assert pieces == [
        ["?" if i == before.unk_id() else before.id_to_piece(i) for i in line]
        for line in before.encode(lines)
    ]
    assert [i for line in ids for i in line if i in (PAD, BOS, EOS)] == []
    assert tokenizer.decode(ids)[:40] == lines[:40]


def test_each_side_may_have_a_model_of_its_own(tmp_path: Path) -> None:
    for name, size in (("a", 300), ("b", 320)):
        existing_model(tmp_path / f"{name}.model", vocab_size=size)
    paths = [str(tmp_path / "a.model"), str(tmp_path / "b.model")]
    settings = config(tmp_path, ENGLISH, KOREAN, model=paths, joint=False)
    tokenizer = Tokenizer.load(train_tokenizer(settings))
    assert (tokenizer.source_vocab, tokenizer.target_vocab) == (301, 321)  # one more for padding
    with pytest.raises(ValueError, match="joint"):
        config(tmp_path, ENGLISH, KOREAN, model=paths)
    with pytest.raises(ValueError, match="joint"):
        config(tmp_path, ENGLISH, KOREAN, model=paths[0], joint=False)


def test_another_model_in_the_file_gives_another_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "own.model"
    settings = config(tmp_path, ENGLISH, KOREAN, model=str(path))
    identities = []
    for size in (300, 300, 320):
        existing_model(path, vocab_size=size)
        identities.append(train_tokenizer(settings).identity)
    assert identities[0] == identities[1] != identities[2]


def test_an_existing_model_that_rewrites_text_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    existing_model(tmp_path / "own.model", normalization_rule_name="nmt_nfkc")
    train_tokenizer(config(tmp_path, ENGLISH, KOREAN, model=str(tmp_path / "own.model")))
    assert "nmt_nfkc" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"", b"the dog\n"])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "own.model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"own\.model"):
        train_tokenizer(config(tmp_path, ENGLISH, KOREAN, model=str(path)))
    assert not (tmp_path / "run" / "tokenizer").exists()


GREEK = ["Ο άνθρωπος βλέπει το σπίτι.", "Το παιδί διαβάζει."] * 20


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_warning_gives_the_share_of_letters_that_an_existing_model_lacks(
    side: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.model"
    existing_model(path, byte_fallback=True, vocab_size=580)
    sides = {"source": ENGLISH[:40], "target": ENGLISH[:40], side: GREEK}
    train_tokenizer(config(tmp_path, sides["source"], sides["target"], model=str(path)))
    messages = capsys.readouterr().err.splitlines()
    (warning,) = [line for line in messages if line.startswith("warning: ")]
    assert f"data.train, {side}: 100.0% of the letters" in warning
    assert "Ο ά ν θ ρ" in warning


def test_nothing_is_said_of_an_existing_model_that_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    existing_model(tmp_path / "own.model")
    train_tokenizer(config(tmp_path, ENGLISH, KOREAN, model=str(tmp_path / "own.model")))
    assert "warning: " not in capsys.readouterr().err


def test_a_vocabulary_size_beside_an_existing_model_is_said_to_be_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    existing_model(tmp_path / "own.model")
    own = str(tmp_path / "own.model")
    train_tokenizer(config(tmp_path, ENGLISH, KOREAN, model=own, vocab_size=500))
    message = "tokenizer.vocab_size 500 is ignored: the tokenizer has 321 subwords"
    assert message in capsys.readouterr().err.splitlines()
