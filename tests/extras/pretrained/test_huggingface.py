"""MarianMT models of Hugging Face's transformers, exported and imported.

The reference is transformers itself: its model, its tokenizer, its search.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from torch import Tensor

import folders
from architectures import LAYERS, pair, seq2seq, transformer
from folders import searching_once, tokenizer_in
from mtkit.artifacts.runs import find_base_model
from mtkit.config.model import ModelSettings
from mtkit.decoding.api import load
from mtkit.decoding.text.line import Line
from mtkit.decoding.text.pipeline import open_window
from mtkit.errors import UserError
from mtkit.extras.pretrained.huggingface import export_to_huggingface, from_huggingface
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import open_model
from mtkit.models.weights import load_model
from mtkit.symbols import BOS, PAD
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_tokenizer
from tasks import WORDS, tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
LINES = ["ant bee", "cat", "dog eel fox", "jay jay ibis", "a: 日本", "bee"]
MAX_LENGTH = 16

Results = tuple[list[str], list[float]]
"""Translations and their scores."""


def export(model: Path, output: Path) -> None:
    export_to_huggingface(str(model), output)


@pytest.fixture(scope="module")
def transformers() -> Any:
    """Import the package only if a test needs it: that takes seconds."""
    import transformers

    transformers.logging.disable_progress_bar()
    return transformers


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus, a tokenizer of both sides in `joint/`, and one for each side in `two/`."""
    folder = tmp_path_factory.mktemp("huggingface")
    write_reversal_task(folder)
    kinds: dict[str, dict[str, Any]] = {
        "joint": {"type": "bpe", "byte_fallback": True, "vocab_size": 310},
        "two": {"joint": False, "vocab_size": 33},
    }
    for name, tokenizer in kinds.items():
        config = tiny_config(folder, "transformer", tokenizer=tokenizer, model={"tie": "target"})
        train_tokenizer(config.model_copy(update={"run": str(folder / name)}))
    return folder


@torch.no_grad()
def with_biases(model: EncoderDecoder) -> None:
    torch.manual_seed(3)  # no ties between translations
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=0.5)


def write_model(path: Path, tokenizer: Tokenizer, settings: ModelSettings, **search: Any) -> Path:
    search = {"beam": 5, "max_length": MAX_LENGTH, "length_penalty": 0} | search
    return folders.write_model(path, tokenizer, settings, with_biases, **search)


def model_at(path: Path) -> EncoderDecoder:
    opened = open_model(path)
    return load_model(opened.config, opened.weights).eval()


def logits_of(model: EncoderDecoder, source: Tensor, target: Tensor) -> Tensor:
    return model.project(model(source, source != PAD, target)).detach()


class Theirs:
    """A folder as transformers loads it."""

    def __init__(self, transformers: Any, folder: Path) -> None:
        self.model = transformers.MarianMTModel.from_pretrained(folder).eval()
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder)

    def ids(self, lines: list[str]) -> list[list[int]]:
        ids: list[list[int]] = self.tokenizer(lines)["input_ids"]
        return ids

    @torch.inference_mode()
    def logits(self, source: Tensor, target: Tensor) -> Tensor:
        pad = self.model.config.pad_token_id
        actual: Tensor = self.model(
            input_ids=source, attention_mask=source != pad, decoder_input_ids=target
        ).logits
        return actual

    def translate(self, lines: list[str], **search: Any) -> Results:
        """Return texts, and log P / |y|^alpha of a beam search."""
        sequences, scores = self.search(lines, **search)
        return self.tokenizer.batch_decode(sequences, skip_special_tokens=True), scores

    @torch.inference_mode()
    def search(self, lines: list[str], **search: Any) -> tuple[list[list[int]], list[float]]:
        """Return ids without the special ones, and scores."""
        batch = self.tokenizer(lines, return_tensors="pt", padding=True)
        actual = self.model.generate(
            **batch,
            **search,
            renormalize_logits=True,  # as our exports say; models from elsewhere need not
            return_dict_in_generate=True,
            output_scores=True,
        )
        special = self.tokenizer.eos_token_id, self.tokenizer.pad_token_id
        rows = actual.sequences[:, 1:].tolist()
        sequences = [[i for i in row if i not in special] for row in rows]
        return sequences, getattr(actual, "sequences_scores", torch.zeros(0)).tolist()


def ours(model: Path, lines: list[str], engine: str = "torch", **search: Any) -> Results:
    translator = load(
        model, "cpu", engine=engine, compute_type="float32", workers=1, threads=1, **search
    )
    actual = list(searching_once(translator).results(lines))
    return [line.text for line in actual], [line.score or 0.0 for line in actual]


def assert_same(actual: Results, expected: Results) -> None:
    assert actual[0] == expected[0]
    assert actual[1] == pytest.approx(expected[1], abs=1e-4)


# Ours to theirs


EXPORTED: dict[str, tuple[str, ModelSettings]] = {
    "tied": ("joint", transformer()),
    "deep-encoder": ("joint", transformer(activation="gelu", encoder_layers=2, decoder_layers=1)),
    "output-bias": ("joint", transformer(activation="swish", output_bias=True)),
    "two-vocabularies": ("two", transformer(tie="target")),
    "untied": ("two", transformer(tie="none", output_bias=True)),
}


@pytest.fixture(scope="module", params=EXPORTED)
def exported(request: pytest.FixtureRequest, task: Path, transformers: Any) -> tuple[Path, Theirs]:
    """A model of ours, and what transformers makes of it."""
    run, settings = EXPORTED[request.param]
    tokenizer = tokenizer_in(task / run / "tokenizer")
    model = write_model(task / f"model-{request.param}", tokenizer, settings)
    export(model, task / f"export-{request.param}")
    return model, Theirs(transformers, task / f"export-{request.param}")


def test_an_exported_tokenizer_gives_equal_ids(exported: tuple[Path, Theirs]) -> None:
    model, theirs = exported
    eos = theirs.tokenizer.eos_token_id
    tokenizer = tokenizer_in(model)
    assert [[*ids, eos] for ids in tokenizer.encode_source(LINES)] == theirs.ids(LINES)
    upper = [line.upper() for line in LINES]
    target = theirs.tokenizer(text_target=upper)["input_ids"]
    assert [[*ids, eos] for ids in tokenizer.encode_target(upper)] == target


def searched(model: Path, beam: int | None = None) -> tuple[list[list[int]], list[float]]:
    """Ids and scores of the best for LINES, as the search finds them, whatever text they spell."""
    loaded = load(model, "cpu", engine="torch", compute_type="float32", beam=beam)
    translator = searching_once(loaded)
    lines = [Line(text) for text in LINES]
    sentences = open_window(lines, translator.tokenizer, translator.request).sentences
    actual = translator.engine.search(sentences, translator.request).result()
    return [best.tokens for best, *_ in actual], [best.score or 0.0 for best, *_ in actual]


def test_an_exported_model_gives_equal_translations(exported: tuple[Path, Theirs]) -> None:
    model, theirs = exported
    (greedy, _), (best, scores) = searched(model, beam=1), searched(model)
    assert greedy == theirs.search(LINES, num_beams=1)[0]
    expected, higher = theirs.search(LINES)  # its own settings: beam 5, alpha 0
    assert best == expected
    assert scores == pytest.approx(higher, abs=1e-4)
    # Of random subwords some are bytes of half a character, which we leave out of a text.
    texts = theirs.translate(LINES, num_beams=1)[0]
    assert ours(model, LINES, beam=1)[0] == [text.replace("\ufffd", "") for text in texts]


def test_search_settings_are_exported_or_named(
    task: Path, transformers: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = tokenizer_in(task / "two/tokenizer")
    expected = {"no_repeat_ngram": 1, "min_length": 8}
    model = write_model(tmp_path / "model", tokenizer, transformer(tie="target"), **expected)
    export(model, tmp_path / "out")
    assert "not exported" not in capsys.readouterr().err
    theirs = Theirs(transformers, tmp_path / "out")
    assert searched(model)[0] == theirs.search(LINES)[0]
    assert searched(model)[0] != theirs.search(LINES, no_repeat_ngram_size=0)[0]
    penalised = write_model(
        tmp_path / "penalised", tokenizer, transformer(tie="target"), repetition_penalty=1.3
    )
    export(penalised, tmp_path / "other")
    assert "decoding.repetition_penalty is not exported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (transformer(norm="pre"), "model.norm: pre"),
        (transformer(positions="none"), "model.positions: none"),
        (transformer(activation="gated"), "model.activation: gated"),
        (transformer(neighbourhood=3), "model.neighbourhood: 3"),
        (seq2seq(), "model.encoder.kind is lstm"),
        (pair(encoder=LAYERS, decoder=LAYERS | {"ffn": 32}), "model.decoder.ffn is 32"),
    ],
)
def test_a_model_that_marian_cannot_represent_is_refused(
    settings: ModelSettings, named: str, task: Path, tmp_path: Path
) -> None:
    model = write_model(tmp_path / "model", tokenizer_in(task / "joint/tokenizer"), settings)
    with pytest.raises(UserError, match=named):
        export(model, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


# Theirs to ours


@pytest.fixture(scope="module")
def opus(task: Path, transformers: Any) -> Path:
    """A folder as those of OPUS-MT are, with random weights.

    Two SentencePiece models with ids of their own, of which the shared vocab.json lacks some.
    """
    return write_opus(transformers, task, task / "opus")


def write_opus(
    transformers: Any,
    task: Path,
    folder: Path,
    *,
    codes: tuple[str, ...] = (),
    spm: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    folder.mkdir()
    pieces: list[str] = []
    for side, text in (("source", "train.src"), ("target", "train.tgt")):
        model = BytesIO()
        SentencePieceTrainer.train(
            sentence_iterator=iter((task / text).read_text().splitlines()),
            model_writer=model,
            minloglevel=3,
            **({"vocab_size": 32} | (spm or {})),
        )
        (folder / f"{side}.spm").write_bytes(model.getvalue())
        processor = SentencePieceProcessor(model_proto=model.getvalue())
        pieces += [processor.id_to_piece(i) for i in range(3, 32)]
    known = sorted(set(pieces) - {"a", "e", "O"})
    random.Random(4).shuffle(known)
    vocabulary = ["</s>", "<unk>", *known, *codes, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(vocabulary)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en"}))
    write_marian(transformers, folder, len(vocabulary), config)
    return folder


def write_marian(transformers: Any, folder: Path, size: int, changes: dict[str, Any]) -> None:
    ids = {"eos_token_id": 0, "pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    config = {
        "vocab_size": size,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "activation_function": "swish",
        "scale_embedding": True,
        "init_std": 0.3,
        "forced_eos_token_id": None,
    }
    torch.manual_seed(5)
    model = transformers.MarianMTModel(transformers.MarianConfig(**(config | ids | changes)))
    torch.nn.init.normal_(model.final_logits_bias)
    model.generation_config = transformers.GenerationConfig(
        **ids,
        num_beams=4,
        length_penalty=0.0,
        max_length=MAX_LENGTH + 1,
        early_stopping=True,
        bad_words_ids=[[size - 1]],
    )
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def imported(opus: Path) -> Path:
    from_huggingface(opus, opus.parent / "imported")
    return opus.parent / "imported"


@pytest.fixture(scope="module")
def original(transformers: Any, opus: Path) -> Theirs:
    return Theirs(transformers, opus)


MARIAN_NAMES = {
    "self_attn.q_proj": "self_{}q",
    "self_attn.k_proj": "self_{}k",
    "self_attn.v_proj": "self_{}v",
    "self_attn.out_proj": "self_{}o",
    "self_attn_layer_norm": "self_Wo_ln_{}",
    "encoder_attn.q_proj": "context_{}q",
    "encoder_attn.k_proj": "context_{}k",
    "encoder_attn.v_proj": "context_{}v",
    "encoder_attn.out_proj": "context_{}o",
    "encoder_attn_layer_norm": "context_Wo_ln_{}",
    "fc1": "ffn_{}1",
    "fc2": "ffn_{}2",
    "final_layer_norm": "ffn_ffn_ln_{}",
}
"""The parts of a layer, as the converter of transformers documents them."""
MARIAN_SETTINGS = {
    "type": "transformer",
    "dim-emb": 16,
    "enc-depth": 2,
    "dec-depth": 1,
    "transformer-heads": 4,
    "transformer-dim-ffn": 24,
    "transformer-ffn-activation": "swish",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-train-position-embeddings": False,
    "tied-embeddings-all": True,
}


def write_release(
    theirs: Path, folder: Path, settings: dict[str, Any], arrays: dict[str, Any]
) -> None:
    """Write a model of transformers as Marian has it: without <pad>, and matrices transposed."""
    folder.mkdir()
    state = load_file(theirs / "model.safetensors")
    written: dict[str, Any] = {
        "Wemb": state.pop("model.shared.weight")[:-1],
        "decoder_ff_logit_out_b": state.pop("final_logits_bias")[:, :-1],
        "special:model.yml": np.frombuffer(f"{json.dumps(settings)}\0".encode(), np.int8),
    }
    for name, value in state.items():
        if ".layers." in name:
            _, side, _, number, part = name.split(".", 4)
            part, kind = part.rsplit(".", 1)
            is_norm = "norm" in part
            kinds = ("scale", "bias") if is_norm else ("W", "b")
            their = MARIAN_NAMES[part].format(kinds[kind == "bias"])
            written[f"{side}_l{int(number) + 1}_{their}"] = np.atleast_2d(value.T)
    np.savez(folder / "model.npz", **(written | arrays))
    ids = json.loads((theirs / "vocab.json").read_text())
    del ids["<pad>"]
    (folder / "opus.vocab.yml").write_text(
        "".join(f"{json.dumps(p)}: {i}\n" for p, i in ids.items())
    )
    for name in ("source.spm", "target.spm"):
        shutil.copy(theirs / name, folder)
    decoder = {
        "relative-paths": True,
        "models": ["model.npz"],
        "vocabs": ["opus.vocab.yml", "opus.vocab.yml"],
        "beam-size": 6,
        "normalize": 1,
    }
    (folder / "decoder.yml").write_text(json.dumps(decoder))


def test_a_release_of_marian_gives_equal_probabilities_and_search_settings(
    opus: Path, imported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_release(opus, tmp_path / "release", MARIAN_SETTINGS, {})
    model = find_base_model(str(tmp_path / "release")).path
    assert open_model(model).tokenizer.models == open_model(imported).tokenizer.models
    source = torch.tensor([[5, 6, 7, 3], [9, 3, PAD, PAD]])
    target = torch.tensor([[BOS, 4, 5], [BOS, 20, 11]])
    expected, actual = (logits_of(model_at(path), source, target) for path in (imported, model))
    is_theirs = torch.arange(actual.shape[-1]) != BOS  # which has the row of <pad>
    torch.testing.assert_close(actual[..., is_theirs], expected[..., is_theirs])
    decoding = open_model(model).config.decoding
    assert (decoding.beam, decoding.length_penalty) == (6, 1.0)


def test_vocabularies_of_a_release_can_be_sentencepiece_models(opus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "release"
    write_release(opus, folder, MARIAN_SETTINGS, {})
    model = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([*LINES, *WORDS] * 9),
        model_writer=model,
        minloglevel=3,
        vocab_size=(size := 28),
        eos_id=0,
        unk_id=1,
        bos_id=-1,
    )
    (folder / "vocab.spm").write_bytes(model.getvalue())
    generator = np.random.default_rng(1)
    arrays = dict(np.load(folder / "model.npz"))
    arrays["Wemb"] = generator.normal(size=(size, 16)).astype("float32")
    arrays["decoder_ff_logit_out_b"] = np.zeros((1, size), "float32")
    np.savez(folder / "model.npz", **arrays)
    for name in ("opus.vocab.yml", "source.spm", "target.spm"):
        (folder / name).unlink()
    changed("decoder.yml", vocabs=["vocab.spm", "vocab.spm"])(folder)
    from_huggingface(folder, tmp_path / "model")
    assert len(ours(tmp_path / "model", LINES)[0]) == len(LINES)


RELEASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "int8": ({}, {"Wemb": np.zeros((4, 16), "int8")}, "Wemb is int8, but mtkit reads only floats"),
    "a layer": ({}, {"decoder_l1_rnn_W": np.zeros((4, 4), "float32")}, "decoder_l1_rnn_W belongs"),
    "ssru": ({"transformer-decoder-autoreg": "rnn"}, {}, "transformer-decoder-autoreg is 'rnn', b"),
    "pre-norm": ({"transformer-preprocess": "n"}, {}, "transformer-preprocess is 'n', but mtkit"),
    "a setting": ({"dim-emb": "wide"}, {}, "release is not a model of Marian in an .npz"),
}


@pytest.mark.parametrize(
    "decoder", ["models: [a.npz, b.npz]", "models: {", "[1]", "vocabs: [[], 1]"]
)
def test_a_release_whose_decoder_yml_names_no_model_is_one_line(
    decoder: str, opus: Path, tmp_path: Path
) -> None:
    write_release(opus, tmp_path / "release", MARIAN_SETTINGS, {})
    (tmp_path / "release/decoder.yml").write_text(decoder)
    with pytest.raises(UserError, match=r"decoder\.yml does not name one model and two vocabs"):
        find_base_model(str(tmp_path / "release"))


@pytest.mark.parametrize("case", RELEASES)
def test_a_release_that_is_not_understood_is_refused_by_name(
    case: str, opus: Path, tmp_path: Path
) -> None:
    settings, arrays, message = RELEASES[case]
    write_release(opus, tmp_path / "release", MARIAN_SETTINGS | settings, arrays)
    with pytest.raises(UserError, match=message):
        from_huggingface(tmp_path / "release", tmp_path / "model")


def their_ids(model: Path, theirs: Theirs) -> list[int]:
    """Return the id of each of our symbols in their vocabulary, <unk> if it has none."""
    size = open_model(model).config.target_vocab
    pieces = tokenizer_in(model).target_pieces(list(range(size)))
    their_id = theirs.tokenizer.get_vocab()
    return [their_id.get("<pad>" if piece == "<s>" else piece, 1) for piece in pieces]


def test_an_imported_tokenizer_gives_equal_pieces(imported: Path, original: Theirs) -> None:
    their_id, tokenizer = their_ids(imported, original), tokenizer_in(imported)
    lines = [*LINES, *WORDS, "aeae", "  ant   bee "]
    actual = [[their_id[i] for i in ids] + [0] for ids in tokenizer.encode_source(lines)]
    assert actual == original.ids(lines)
    # Capitals, which the vocabulary lacks, are read as small letters, not as unknown symbols.
    assert tokenizer.encode_source(["BEE"]) == tokenizer.encode_source(["bee"])
    assert any(1 in ids[1:] for ids in actual)


def test_an_imported_model_gives_equal_probabilities(imported: Path, original: Theirs) -> None:
    their_id = torch.tensor(their_ids(imported, original))
    source = torch.tensor([[5, 6, 7, 3], [9, 3, PAD, PAD]])
    target = torch.tensor([[BOS, 4, 5], [BOS, 20, 11]])
    actual = logits_of(model_at(imported), source, target).log_softmax(dim=-1)
    expected = original.logits(their_id[source], their_id[target]).log_softmax(dim=-1)[
        ..., their_id
    ]
    silent = actual.exp().amax(dim=(0, 1)) == 0
    assert silent.sum() == 4  # <pad>, and three pieces that vocab.json does not know
    torch.testing.assert_close(actual[..., ~silent], expected[..., ~silent], atol=1e-4, rtol=0)


def test_an_imported_model_gives_equal_translations(imported: Path, original: Theirs) -> None:
    assert ours(imported, LINES, beam=1)[0] == original.translate(LINES, num_beams=1)[0]
    assert_same(ours(imported, LINES), original.translate(LINES))
    assert open_model(imported).config.decoding.beam == 4


@pytest.mark.parametrize(
    "search",
    [
        {"max_new_tokens": 6, "no_repeat_ngram_size": 1},
        {"max_length": 7, "min_length": 7},
        {"max_new_tokens": 6, "max_length": 3, "min_length": 2, "min_new_tokens": 5},
    ],
    ids=str,
)
def test_search_settings_are_imported_by_all_their_names(
    search: dict[str, int], opus: Path, original: Theirs, tmp_path: Path
) -> None:
    shutil.copytree(opus, tmp_path / "theirs")
    changed("generation_config.json", **search)(tmp_path / "theirs")
    from_huggingface(tmp_path / "theirs", tmp_path / "model")
    assert_same(ours(tmp_path / "model", LINES), original.translate(LINES, **search))
    assert open_model(tmp_path / "model").config.decoding.max_length == 6


def test_a_repetition_penalty_is_not_imported_silently(
    opus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(opus, tmp_path / "theirs")
    changed("generation_config.json", repetition_penalty=1.3)(tmp_path / "theirs")
    from_huggingface(tmp_path / "theirs", tmp_path / "model")
    assert "repetition_penalty is ignored" in capsys.readouterr().err
    assert open_model(tmp_path / "model").config.decoding.repetition_penalty == 1.0


def test_ctranslate2_runs_an_imported_model(imported: Path, original: Theirs) -> None:
    texts, scores = original.translate(LINES)
    translations, higher = ours(imported, LINES, "ctranslate2")
    assert translations == texts
    assert all(0 < mine - theirs < 1 for mine, theirs in zip(higher, scores, strict=True))


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_model_imports_with_its_own_weights(
    name: str, task: Path, tmp_path: Path
) -> None:
    run, settings = EXPORTED[name]
    model = write_model(tmp_path / "model", tokenizer_in(task / run / "tokenizer"), settings)
    export(model, tmp_path / "out")
    from_huggingface(tmp_path / "out", tmp_path / "back")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("model", "back"))
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    cards = [open_model(tmp_path / name).config for name in ("model", "back")]
    assert cards[0].decoding == cards[1].decoding
    assert ours(model, LINES) == ours(tmp_path / "back", LINES)


def test_symbols_of_version_0_1_are_suppressed_after_export_and_import(tmp_path: Path) -> None:
    symbols = [chr(code) for code in range(0xFDD1, 0xFDE4)]
    old = folders.train(vocab_size=330, user_defined_symbols=symbols)
    assert old.target_pieces(old.source_only) == symbols
    write_model(tmp_path / "model", old, EXPORTED["tied"][1])
    export(tmp_path / "model", tmp_path / "out")
    search = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert set(old.source_only) <= set(search["suppress_tokens"])
    from_huggingface(tmp_path / "out", tmp_path / "back")
    back = tokenizer_in(tmp_path / "back")
    assert back.source_only == old.source_only


def test_target_language_codes_are_target_tags(
    task: Path, transformers: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_opus(transformers, task, tmp_path / "opus", codes=(">>deu<<", ">>cmn_Hans<<"))
    from_huggingface(folder, tmp_path / "model")
    assert "choose one with --tag: cmn_Hans, deu" in capsys.readouterr().err
    theirs, tokenizer = Theirs(transformers, folder), tokenizer_in(tmp_path / "model")
    their_id = theirs.tokenizer.get_vocab()
    assert tokenizer.tags.keys() == {"deu", "cmn_Hans"}
    assert theirs.ids([">>deu<< ant bee"])[0][0] == their_id[">>deu<<"]
    lines = ["ant bee", "cat", "dog", "jay jay ibis"]
    for tag in tokenizer.tags:
        coded = [f">>{tag}<< {line}" for line in lines]
        export(tmp_path / "model", tmp_path / f"back-{tag}")
        back = Theirs(transformers, tmp_path / f"back-{tag}")
        expected = ours(tmp_path / "model", lines, tag=tag)
        for translator in (theirs, back):
            assert translator.translate(coded)[0] == expected[0]
        from_huggingface(tmp_path / f"back-{tag}", tmp_path / f"again-{tag}")
        assert ours(tmp_path / f"again-{tag}", lines, tag=tag) == expected


def test_links_as_in_the_hubs_cache_are_followed(opus: Path, tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    for file in opus.iterdir():
        (tmp_path / "snapshot" / file.name).symlink_to(file)
    from_huggingface(tmp_path / "snapshot", tmp_path / "model")
    assert not any(file.is_symlink() for file in (tmp_path / "model").iterdir())


def changed(name: str, **changes: Any) -> Callable[[Path], object]:
    """Puts values into a JSON file; None takes the key away."""

    def change(folder: Path) -> None:
        value = json.loads((folder / name).read_text()) | changes
        kept = {key: inner for key, inner in value.items() if inner is not None}
        (folder / name).write_text(json.dumps(kept))

    return change


def as_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "t5": (changed("config.json", model_type="t5"), "model_type is t5"),
    "gelu_new": (changed("config.json", activation_function="gelu_new"), "activation_function"),
    "heads": (changed("config.json", decoder_attention_heads=2), "attention_heads"),
    "not a size": (changed("config.json", d_model="wide"), "d_model"),
    "deeper": (changed("config.json", encoder_layers=3), "layers.2.* is missing"),
    "larger": (
        changed("config.json", vocab_size=99, decoder_vocab_size=99),
        "the config of the model says 99",
    ),
    "start": (changed("generation_config.json", decoder_start_token_id=1), "decoder_start"),
    "pad": (changed("generation_config.json", pad_token_id=3), "pad_token_id is 3"),
    "beam": (changed("generation_config.json", num_beams=-1), "beam"),
    "ids": (changed("vocab.json", **{"<unk>": 2}), "ids must be 0"),
    "two": (changed("tokenizer_config.json", separate_vocabs=True), "shares one embedding"),
    "pickle": (as_pickle, "never loaded.* write model.safetensors beside it"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
    "spm": (lambda folder: (folder / "target.spm").write_text("hello"), "target.spm is not a Sent"),
    "json": (lambda folder: (folder / "config.json").write_text("[1]"), "not a JSON object"),
    "weights": (lambda folder: (folder / "model.safetensors").write_text("{}"), "not a safetens"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_import_that_fails_names_the_fault(case: str, opus: Path, tmp_path: Path) -> None:
    spoil, named = REFUSED[case]
    shutil.copytree(opus, tmp_path / "theirs")
    spoil(tmp_path / "theirs")
    with pytest.raises(UserError, match=named) as refusal:
        from_huggingface(tmp_path / "theirs", tmp_path / "model")
    assert str(tmp_path / "theirs") in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_bpe_models_that_differ_are_refused(task: Path, transformers: Any, tmp_path: Path) -> None:
    spm = {"model_type": "bpe"}
    folder = write_opus(transformers, task, tmp_path / "opus", spm=spm)
    with pytest.raises(UserError, match=r"source\.spm is a BPE model that lacks"):
        from_huggingface(folder, tmp_path / "model")


def test_existing_outputs_are_refused(opus: Path, imported: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    for output in (tmp_path / "file", tmp_path):
        for write in (partial(from_huggingface, opus), partial(export, imported)):
            with pytest.raises(UserError, match="already exists"):
                write(output)
    assert (tmp_path / "file").read_text() == "precious"
