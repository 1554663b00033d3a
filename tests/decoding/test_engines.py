"""Laws of the engines: equal results, the choice of the engine, and its messages."""

from __future__ import annotations

import math
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from architectures import LAYERS, LSTM, pair, seq2seq, transformer
from commands import call
from folders import SENTENCES, as_if_trained, train, write_model
from mtkit.artifacts.manifest import hash_file
from mtkit.config.decoding import MAX_LENGTH_PENALTY, MAX_SEARCH_TOKENS, DecodingSettings
from mtkit.config.model import ModelSettings
from mtkit.decoding.api import load
from mtkit.decoding.engines import conversion
from mtkit.decoding.engines.auto import AutoEngine
from mtkit.decoding.engines.conversion import cached
from mtkit.decoding.engines.engine import EngineOptions, Hypothesis, Request, Sentence
from mtkit.errors import UserError
from mtkit.models.folder import open_model
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer

KINDS: dict[str, ModelSettings] = {
    "post-norm": transformer(),
    "pre-norm": transformer(norm="pre", activation="gelu", tie="target"),
    "gated": transformer(activation="gated"),
    "unequal depth": transformer(
        encoder_layers=3, decoder_layers=1, activation="swish", tie="none"
    ),
    "output bias": transformer(output_bias=True),
    "no positions": transformer(positions="none"),
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train()


@pytest.fixture(scope="module", params=KINDS)
def folder(
    request: pytest.FixtureRequest, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("model") / "model"
    return write_model(path, tokenizer, KINDS[request.param], as_if_trained)


@pytest.fixture(scope="module")
def plain(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "model"
    return write_model(path, tokenizer, transformer(), as_if_trained)


def search_with(
    folder: Path, engine: str, request: Request, sentences: list[Sentence]
) -> list[list[Hypothesis]]:
    options = EngineOptions.model_validate({"engine": engine, "device": "cpu"})
    return AutoEngine([open_model(folder)], options, request).search(sentences, request).result()


def sources(count: int, *, longest: int = 20) -> list[Sentence]:
    draw = random.Random(1)
    return [
        Sentence([*(draw.randrange(4, 300) for _ in range(draw.randrange(1, longest))), EOS])
        for _ in range(count)
    ]


def engine_of(folder: Path, **options: Any) -> str:
    return load(folder, "cpu", **options).engine.name


# Extremes of settings


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
@pytest.mark.parametrize(
    "settings",
    [
        {"length_penalty": 5e-324},
        {"length_penalty": MAX_LENGTH_PENALTY},
        {"repetition_penalty": 0.01},
        {"repetition_penalty": 100.0},
        {"repetition_penalty": 1 + 2**-52},
    ],
    ids=str,
)
def test_the_extremes_that_settings_allow_find_hypotheses_with_finite_scores(
    folder: Path, engine: str, settings: dict[str, float]
) -> None:
    request = Request(DecodingSettings(beam=3, max_length=12, **settings), 3)  # type: ignore[arg-type]
    for ranked in search_with(folder, engine, request, sources(10)):
        assert ranked
        assert all(math.isfinite(hypothesis.score or math.nan) for hypothesis in ranked)


def test_a_length_penalty_that_makes_lengths_infinite_in_float32_is_refused() -> None:
    longest = torch.tensor(MAX_SEARCH_TOKENS)
    assert (longest**MAX_LENGTH_PENALTY).isfinite()
    with pytest.raises(ValidationError, match="less than or equal to 5"):
        DecodingSettings(length_penalty=8.0)


# Parity


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"beam": 1, "length_penalty": 0.6},
        {"beam": 4, "length_penalty": 0.0},
        {"beam": 3, "batch_tokens": 30},
        {"beam": 3, "min_length": 2},
        {"beam": 1, "no_repeat_ngram": 2},
        {"beam": 4, "no_repeat_ngram": 1},
        {"beam": 3, "repetition_penalty": 0.7, "no_repeat_ngram": 2},
    ],
    ids=str,
)
def test_both_engines_find_the_same_with_the_same_score(
    folder: Path, settings: dict[str, Any]
) -> None:
    request = Request(DecodingSettings(max_length=12, **settings), settings["beam"])
    by_torch, by_other = (
        search_with(folder, engine, request, sources(40)) for engine in ("torch", "ctranslate2")
    )
    ends = any(hypothesis.finished for ranked in by_torch for hypothesis in ranked)
    assert ends or "min_length" in settings  # of which one of the models never ends
    for ours, theirs in zip(by_torch, by_other, strict=True):
        assert (theirs[0].tokens, theirs[0].finished) == (ours[0].tokens, ours[0].finished)
        scores = [hypothesis.score or 0.0 for hypothesis in theirs]
        assert scores == sorted(scores, reverse=True) and len(scores) == settings["beam"]
        known = {tuple(hypothesis.tokens): hypothesis.score for hypothesis in ours}
        for hypothesis in theirs:  # the end of the list may differ where more than K finish
            score = known.get(tuple(hypothesis.tokens), hypothesis.score)
            assert hypothesis.score == pytest.approx(score, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{"beam": 1}, {"beam": 4, "min_length": 8, "repetition_penalty": 1.2}], ids=str
)
def test_both_engines_continue_a_prefix_alike(folder: Path, settings: dict[str, Any]) -> None:
    request = Request(DecodingSettings(max_length=12, **settings), settings["beam"])
    draw = random.Random(2)
    sentences = [
        replace(sentence, prefix=draw.choices(range(4, 300), k=draw.choice([0, 1, 7, 12])))
        for sentence in sources(40)
    ]
    by_torch, by_other = (
        search_with(folder, engine, request, sentences) for engine in ("torch", "ctranslate2")
    )
    for sentence, ours, theirs in zip(sentences, by_torch, by_other, strict=True):
        assert (theirs[0].tokens, theirs[0].finished) == (ours[0].tokens, ours[0].finished)
        assert ours[0].tokens[: len(sentence.prefix)] == sentence.prefix
        assert theirs[0].score == pytest.approx(ours[0].score, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("beam", [1, 4])
def test_both_engines_attend_alike(folder: Path, beam: int) -> None:
    """In batches of several sentences, with and without prefixes."""
    request = Request(DecodingSettings(max_length=12, beam=beam), beam, alignments=True)
    draw = random.Random(3)
    sentences = [
        replace(sentence, prefix=draw.choices(range(4, 300), k=draw.choice([0, 0, 1, 3])))
        for sentence in sources(40)
    ]
    by_torch, by_other = (
        search_with(folder, engine, request, sentences) for engine in ("torch", "ctranslate2")
    )
    compared = 0
    for sentence, ours, theirs in zip(sentences, by_torch, by_other, strict=True):
        attention = {tuple(hypothesis.tokens): hypothesis.attention for hypothesis in ours}
        for hypothesis in theirs:
            expected = attention.get(tuple(hypothesis.tokens))
            if expected is None or not hypothesis.tokens:
                continue
            assert hypothesis.attention is not None
            # Neither has a row or a column for EOS.
            assert expected.shape == (len(hypothesis.tokens), len(sentence.source) - 1)
            np.testing.assert_allclose(hypothesis.attention, expected, atol=1e-4)
            compared += 1
    assert compared >= 20


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
@pytest.mark.parametrize("beam", [1, 3])
def test_translations_without_scores_are_the_same(plain: Path, engine: str, beam: int) -> None:
    translator = load(plain, "cpu", engine=engine, beam=beam)
    scored = list(translator.results(SENTENCES))
    assert translator.translate(SENTENCES) == [one.text for one in scored]
    assert all(one.score is not None and math.isfinite(one.score) for one in scored)


def test_both_engines_read_very_long_sentences_alike(plain: Path) -> None:
    ids = random.Random(1).choices(range(4, 300), k=1500)
    request = Request(DecodingSettings(beam=2, max_length=20))
    ours, theirs = (
        load(plain, "cpu", engine=engine, max_length=1500)
        .engine.search([Sentence([*ids, EOS])], request)
        .result()
        for engine in ("torch", "ctranslate2")
    )
    assert theirs[0][0].tokens == ours[0][0].tokens


def test_batches_and_workers_change_no_line_and_no_order(plain: Path) -> None:
    texts = [" ".join(["dog", "men"][n % 2 : 1 + n % 7]) + f" {n}" for n in range(120)]
    alone = load(plain, "cpu", engine="ctranslate2", threads=1, batch_tokens=1)
    several = load(plain, "cpu", engine="ctranslate2", workers=3, threads=1)
    expected = list(alone.results(texts))
    actual = list(several.results(texts))
    assert [translation.text for translation in actual] == [it.text for it in expected]
    assert [it.score for it in actual] == pytest.approx([it.score for it in expected], abs=1e-4)


# Choice of the engine


def test_auto_uses_ctranslate2_if_it_supports_the_request(
    plain: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    assert engine_of(plain) == "ctranslate2 float32"
    assert engine_of(plain, compute_type="int8") == "ctranslate2 int8"
    assert engine_of(plain, engine="torch") == "torch float32"
    for change in ({"max_length": 9000}, {"compute_type": "float16"}):
        assert engine_of(plain, **change).startswith("torch float")
    near = write_model(tmp_path / "near", tokenizer, transformer(neighbourhood=2))
    assert engine_of(near) == "torch float32"
    assert engine_of(write_model(tmp_path / "lstm", tokenizer, seq2seq())) == "torch float32"


@pytest.mark.parametrize(
    ("kind", "options", "complaint"),
    [
        (transformer(), {"max_length": 9000}, r"max_length 9000: .*8191.*engine torch"),
        (seq2seq(), {}, r"model\.encoder\.kind is lstm; "),
        (pair(encoder=LAYERS, decoder=LSTM), {}, r"model\.decoder\.kind is lstm; "),
        (
            pair(encoder=LAYERS, decoder=LAYERS | {"heads": 2}),
            {},
            r"model\.decoder\.heads is 2, but",
        ),
        (transformer(neighbourhood=2), {}, r"model\.neighbourhood: "),
        (transformer(), {"compute_type": "float16"}, r"compute type float16: .*float32"),
    ],
    ids=str,
)
def test_a_named_engine_says_what_it_does_not_support(
    kind: ModelSettings,
    options: dict[str, Any],
    complaint: str,
    tokenizer: Tokenizer,
    tmp_path: Path,
) -> None:
    model = write_model(tmp_path / "model", tokenizer, kind)
    with pytest.raises(UserError, match=complaint):
        load(model, "cpu", engine="ctranslate2", **options)


def test_unsupported_options_are_named(plain: Path) -> None:
    with pytest.raises(UserError, match="int8: the engine torch supports float32"):
        load(plain, "cpu", engine="torch", compute_type="int8")
    with pytest.raises(UserError, match=r"int8: .*torch supports .*\(max_length"):
        load(plain, "cpu", compute_type="int8", max_length=9000)
    with pytest.raises(UserError, match="no tpu"):
        load(plain, "tpu")
    with pytest.raises(UserError, match="workers: should be greater than or equal to 1, found 0"):
        load(plain, "cpu", workers=0)
    with pytest.raises(
        UserError, match="engine: expected 'auto', 'torch' or 'ctranslate2', found 'fast'"
    ):
        load(plain, "cpu", engine="fast")


def test_auto_picks_an_engine_for_each_request(plain: Path) -> None:
    auto, torch = (load(plain, engine=engine, sample=True) for engine in ("auto", "torch"))
    assert auto.engine.name == torch.engine.name == "torch float32"
    assert auto.translate(["A dog runs.", "Why?"]) == torch.translate(["A dog runs.", "Why?"])
    with pytest.raises(UserError, match=r"^sampling: .*engine torch"):
        load(plain, engine="ctranslate2", sample=True)
    fast = load(plain, "cpu")
    assert fast.engine.name == "ctranslate2 float32"
    assert fast.translate(SENTENCES, sample=True) == torch.translate(SENTENCES)
    assert isinstance(fast.engine, AutoEngine)
    longer = fast.request.changed(max_length=9000)
    assert fast.engine.engine_for(longer).name == "torch float32"
    with pytest.raises(UserError, match=r"^sampling: .*engine torch"):
        load(plain, "cpu", engine="ctranslate2").translate(SENTENCES, sample=True)


# The cache


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_model_is_converted_once(
    plain: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(plain, "cpu").translate(SENTENCES)
    monkeypatch.setattr(conversion, "convert_to", None)
    assert load(plain, "cpu").translate(SENTENCES) == first
    assert load(plain, "cpu", beam=2, max_length=1000).translate(SENTENCES)


@pytest.mark.parametrize("damage", ["model.bin", "manifest.json"])
def test_a_damaged_conversion_is_converted_again(
    damage: str, plain: Path, empty_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = load(plain, "cpu").translate(SENTENCES)
    (file,) = empty_cache.rglob(damage)
    whole = hash_file(file)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    capsys.readouterr()
    assert load(plain, "cpu").translate(SENTENCES) == expected
    assert capsys.readouterr().err.count("is damaged or") == 1
    assert hash_file(file) == whole


def test_an_altered_copy_of_a_model_does_not_change_what_the_genuine_model_writes(
    tmp_path: Path, empty_cache: Path
) -> None:
    """The copy also has a tokenizer for both sides, which its manifest does not list."""
    source, target = train(SENTENCES), train([line[::-1] for line in SENTENCES])
    two = Tokenizer(
        {
            Path("spm.source.model"): source.models["spm.model"],
            Path("spm.target.model"): target.models["spm.model"],
        }
    )
    genuine = write_model(tmp_path / "genuine", two, transformer(tie="none"))
    copy = shutil.copytree(genuine, tmp_path / "copy")
    source.copy_to(copy)
    of_copy = load(copy, "cpu", engine="ctranslate2").translate(SENTENCES)
    assert load(genuine, "cpu", engine="ctranslate2").translate(SENTENCES) == of_copy
    shutil.rmtree(empty_cache)
    assert load(genuine, "cpu", engine="ctranslate2").translate(SENTENCES) == of_copy


def test_a_file_that_is_put_into_a_conversion_is_refused(plain: Path, empty_cache: Path) -> None:
    load(plain, "cpu", engine="ctranslate2")
    (weights,) = empty_cache.rglob("model.bin")
    weights.with_name("source_vocabulary.txt").write_text("a\n")
    with pytest.raises(UserError, match="does not belong to the converted model"):
        load(plain, "cpu", engine="ctranslate2")


def test_a_relative_cache_is_ignored(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    load(plain, "cpu", engine="ctranslate2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


def test_each_library_version_has_its_own_conversion(
    plain: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_model(plain)
    before = cached(opened, "float32")
    monkeypatch.setattr("mtkit.decoding.engines.conversion.version", lambda name: "4.99.0")
    assert cached(opened, "float32").manifest["request"] != before.manifest["request"]


def test_a_conversion_that_returns_other_attention_is_converted_again(
    plain: Path, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_model(plain)
    with monkeypatch.context() as earlier:
        earlier.setattr(conversion, "ALL_HEADS", 1)
        before = cached(opened, "float32")
    after = cached(opened, "float32")
    assert after.path == before.path
    assert after.identity != before.identity


def test_without_a_writable_cache_torch_translates(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert engine_of(plain) == "torch float32"
    assert "Not a directory" in capsys.readouterr().err
    with pytest.raises(UserError, match="Not a directory"):
        engine_of(plain, engine="ctranslate2")


def test_stderr_names_the_engine_once(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_text("A dog runs.\n" * 3)
    for options, name in (("", "ctranslate2 float32"), ("--engine torch", "torch float32")):
        command = ["translate", str(tmp_path / "in"), "-m", str(plain), *options.split()]
        assert call(*command) == 0
        captured = capsys.readouterr()
        assert captured.err.count(name) == 1 and "translating with" in captured.err
        assert captured.out.count("\n") == 3 and name not in captured.out
        assert call(*command, "--quiet") == 0
        quiet = capsys.readouterr()
        assert name not in quiet.err and quiet.out == captured.out


# CTranslate2 fails


class Broken:
    """A `ctranslate2.Translator` that fails when it is opened, or at the first batch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.fails_when == "opened":
            raise RuntimeError("Library libcublas.so.12 is not found")

    fails_when = "opened"

    def translate_batch(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Library libcublas.so.12 is not found")


@pytest.mark.parametrize("moment", ["opened", "used"])
def test_if_ctranslate2_fails_torch_translates_with_one_warning(
    moment: str, plain: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = load(plain, "cpu", engine="torch").translate(SENTENCES)
    monkeypatch.setattr(Broken, "fails_when", moment)
    monkeypatch.setattr("mtkit.decoding.engines.ctranslate2._library.Translator", Broken)
    translator = load(plain, "cpu")
    assert [translator.translate(SENTENCES) for _ in range(2)] == [expected, expected]
    assert translator.engine.name == "torch float32"
    assert capsys.readouterr().err.count("libcublas.so.12") == 1
    assert call("translate", "-m", str(plain), "--engine", "ctranslate2") == 2
    assert capsys.readouterr().err.count("\n") == 1


class _Failing:
    """Finds CTranslate2's extension, whose import fails."""

    def __init__(self, failure: Exception) -> None:
        self.failure = failure

    def find_spec(self, name: str, *_: object) -> None:
        if name == "ctranslate2._ext":
            raise self.failure


@pytest.mark.parametrize(
    "failure",
    [
        ImportError("undefined symbol"),
        OSError("libgomp.so.1: cannot open shared object file"),
        RuntimeError("built for another version"),
        AttributeError("no attribute 'x'"),
        SystemError("initialization failed"),
        ValueError("dtype size changed"),
        KeyError(),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_whatever_the_import_of_ctranslate2_raises_torch_translates_with_one_warning(
    failure: Exception,
    plain: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("mtkit.decoding.engines.ctranslate2", "ctranslate2", "ctranslate2._ext"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Failing(failure), *sys.meta_path])
    translator = load(plain, "cpu")
    assert len([*translator.translate(SENTENCES), *translator.translate(SENTENCES)])
    assert translator.engine.name == "torch float32"
    (warning,) = capsys.readouterr().err.splitlines()
    reason = str(failure) or type(failure).__name__
    assert f"CTranslate2 does not work here: {reason}; using the slower engine" in warning
    assert call("translate", "-m", str(plain), "--engine", "ctranslate2") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"CTranslate2 does not work here: {reason}" in line


def test_if_ctranslate2_cannot_be_imported_torch_translates(
    plain: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "mtkit.decoding.engines.ctranslate2", raising=False)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert engine_of(plain) == "torch float32"
    assert "CTranslate2 does not work here" in capsys.readouterr().err
    with pytest.raises(UserError, match="CTranslate2 does not work here"):
        engine_of(plain, engine="ctranslate2")
