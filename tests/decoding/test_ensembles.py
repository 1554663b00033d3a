"""Laws of ensembles: probabilities are the mean of the members' probabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mtkit
from architectures import ENSEMBLES, assemble, make, seq2seq, sources, targets, transformer
from commands import call
from folders import SENTENCES, train, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.config.model import ModelSettings
from mtkit.decoding.search.forced import attention_to_source
from mtkit.errors import UserError
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.ensemble import Ensemble
from mtkit.models.interfaces import TranslationModel
from mtkit.symbols import EOS, PAD
from mtkit.tokenizer.codec import Tokenizer
from searches import VOCABULARY, assert_same, beam_search, hypotheses_of, random_model

SOURCE = torch.tensor([[4, 5, 6, 5, EOS], [6, EOS, PAD, PAD, PAD], [5, 5, 4, EOS, PAD]])
LONG = " ".join(f"{sentence} " * 3 for sentence in SENTENCES)
SETTINGS = [{}, {"beam": 1}, {"no_repeat_ngram": 2}, {"length_penalty": 0.0, "min_length": 3}]

every_ensemble = pytest.mark.parametrize("name", ENSEMBLES)


def members_of(model: TranslationModel[Any, Any]) -> list[EncoderDecoder]:
    assert isinstance(model, Ensemble)
    return list(model.members)


def probabilities(model: TranslationModel[Any, Any], source: Tensor, target: Tensor) -> Tensor:
    """Return the probability of every symbol after each prefix of `target`, which has BOS."""
    with torch.inference_mode():
        return model.project(model(source, source != PAD, target)).double().softmax(-1)


# The model


@every_ensemble
def test_probabilities_are_the_mean_of_the_members(name: str) -> None:
    model, source, target = assemble(name), sources([6, 3]), targets(2, 4)
    each = [probabilities(it, source, target) for it in members_of(model)]
    assert not torch.allclose(each[0], each[1])
    actual = probabilities(model, source, target)
    torch.testing.assert_close(actual.log(), torch.stack(each).mean(0).log(), atol=1e-5, rtol=0)


def test_tiny_probabilities_do_not_vanish() -> None:
    model = Ensemble([make("transformer", seed=seed, vocab=VOCABULARY) for seed in (1, 2)])
    with torch.no_grad():
        for member in model.members:
            member.output_weight.mul_(300.0)
    with torch.inference_mode():
        actual = model.project(model(SOURCE, SOURCE != PAD, targets(3, 2, vocab=VOCABULARY)))
    assert actual.log_softmax(-1).min() < -150
    assert actual.isfinite().all()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("name", ["transformer", "seq2seq-general-feeding"])
def test_an_ensemble_of_one_model_equals_the_model(name: str, settings: dict[str, Any]) -> None:
    model = random_model(name)
    assert isinstance(model, EncoderDecoder)
    decoding = DecodingSettings.model_validate({"beam": 4, "max_length": 7} | settings)
    prefixes = [[4, 6], [], [5]]
    alone = beam_search(model, SOURCE, decoding, prefixes)
    together = beam_search(Ensemble([model, model, model]), SOURCE, decoding, prefixes)
    for sentence in range(len(SOURCE)):
        assert_same(hypotheses_of(together, sentence), hypotheses_of(alone, sentence))


@every_ensemble
def test_attention_is_the_mean_of_the_members(name: str) -> None:
    model, source, target = assemble(name), sources([6, 3]), targets(4, 5)
    each = [attention_to_source(it, source, target) for it in members_of(model)]
    assert not torch.allclose(each[0], each[1])
    actual = attention_to_source(model, source, target)
    torch.testing.assert_close(actual, torch.stack(each).mean(0))


# Folders and commands


def reseeded(seed: int) -> Any:
    def change(model: EncoderDecoder) -> None:
        torch.manual_seed(seed)
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.3)

    return change


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train()


@pytest.fixture(scope="module")
def models(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    kinds: dict[str, ModelSettings] = {
        "a": transformer(),
        "b": seq2seq(),
        "c": transformer(layers=1),
    }
    return [
        write_model(folder / name, tokenizer, kind, reseeded(seed))
        for seed, (name, kind) in enumerate(kinds.items())
    ]


def test_the_command_and_python_write_the_same(
    models: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "in.txt"
    text.write_text("".join(f"{line}\n" for line in [*SENTENCES, "", LONG]))
    named = [argument for model in models for argument in ("-m", str(model))]
    assert call("translate", *named, str(text), "--jsonl", "--device", "cpu") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    translator = mtkit.load(models, "cpu")
    assert translator.engine.name == "torch float32"
    assert [it["text"] for it in records] == translator.translate(text.read_text().splitlines())
    alone = [mtkit.load(model, "cpu", engine="torch").translate(SENTENCES) for model in models]
    assert all([it["text"] for it in records][: len(SENTENCES)] != each for each in alone)


def test_an_ensemble_decodes_by_the_settings_of_the_first(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    models = [
        write_model(tmp_path / f"m{beam}", tokenizer, transformer(), beam=beam, max_length=4 * beam)
        for beam in (3, 2)
    ]
    for order, beam, expected in (
        (models, None, (3, 12)),
        (models[::-1], None, (2, 8)),
        (models, 4, (4, 12)),
    ):
        settings = mtkit.load(order, "cpu", beam=beam).request.settings
        assert (settings.beam, settings.max_length) == expected


# Errors


def test_models_with_different_tokenizers_are_refused(models: list[Path], tmp_path: Path) -> None:
    other = train([sentence.upper() for sentence in SENTENCES])
    same_subwords = train(normalization_rule_name="identity")
    for name, tokenizer in (("other", other), ("plain", same_subwords)):
        path = write_model(tmp_path / name, tokenizer, transformer())
        with pytest.raises(UserError, match=f"{models[0]} and {path} cannot form an ensemble"):
            mtkit.load([models[0], path], "cpu")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("translate {} --engine ctranslate2", "an ensemble of 2 models: CTranslate2 supports"),
        ("translate {} --compute-type int8", "compute type int8: the engine torch supports"),
        ("translate {} -m nowhere", "nowhere holds no model"),
        ("attend {} Why?", "mtkit attend: --model was given twice"),
        ("export {} --to ctranslate2", "mtkit export: --model was given twice"),
    ],
)
def test_what_an_ensemble_does_not_support_is_one_line_and_exit_code_2(
    arguments: str, line: str, models: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    named = f"-m {models[0]} -m {models[1]}"
    assert call(*arguments.format(named).split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(line)
    assert captured.err.count("\n") == 1


def test_an_empty_ensemble_is_refused() -> None:
    with pytest.raises(UserError, match="at least one model"):
        mtkit.load([])
