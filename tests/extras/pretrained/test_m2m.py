"""M2M-100 and NLLB models; the reference is transformers itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from commands import call
from folders import SENTENCES, searching_once
from hubs import MAIN, Repository, serving, use_hub
from m2m_models import NLLB_LANGUAGES, write_m2m, write_nllb
from mtkit.artifacts.runs import WEIGHTS, find_base_model
from mtkit.decoding.api import Translator, load
from mtkit.decoding.text.line import Line
from mtkit.decoding.text.pipeline import open_window
from mtkit.errors import UserError
from mtkit.extras.html.export import export_to_html
from mtkit.extras.pretrained import marian
from mtkit.extras.pretrained.huggingface import export_to_huggingface, from_huggingface
from mtkit.extras.pretrained.m2m import read_m2m_vocabulary
from mtkit.models.folder import open_model
from mtkit.models.weights import load_model
from mtkit.symbols import BOS, EOS, PAD
from tasks import write_reversal_task

pytestmark = pytest.mark.slow
LINES = ["A dog runs.", "Two men", "It rains in Spain.", "Why?", "boat"]
SHAPES: dict[str, tuple[Callable[..., Path], dict[str, Any]]] = {
    "m2m": (write_m2m, {}),
    "nllb": (write_nllb, {}),
    "deep encoder": (write_nllb, {"encoder_layers": 3, "decoder_layers": 1}),
    "wide": (write_m2m, {"d_model": 32, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40}),
}
TAGS = {"m2m": ("en", "de"), "nllb": ("eng_Latn", "deu_Latn")}


@pytest.fixture(scope="module")
def transformers() -> Any:
    """Import the package only if a test needs it: that takes seconds."""
    import transformers

    transformers.logging.disable_progress_bar()
    return transformers


class Pair:
    """A model in a folder of theirs, and imported."""

    def __init__(self, transformers: Any, folder: Path, imported: Path) -> None:
        self.folder = folder
        self.path = imported
        self.theirs = transformers.M2M100ForConditionalGeneration.from_pretrained(folder).eval()
        self.opened = open_model(imported)
        self.ours = load_model(self.opened.config, self.opened.weights).eval()
        config = json.loads((folder / "config.json").read_text())
        self.rows = torch.tensor(read_m2m_vocabulary(folder, config)[0].rows)
        self.source, self.target = TAGS[
            "nllb" if "eng_Latn" in self.opened.tokenizer.tags else "m2m"
        ]

    @torch.inference_mode()
    def search(self, sources: list[list[int]], beam: int) -> list[list[int]]:
        """Return what transformers writes for each source: its ids of our symbols."""
        found = []
        for source in sources:
            output = self.theirs.generate(
                self.rows[torch.tensor([source])],
                forced_bos_token_id=int(self.rows[self.opened.tokenizer.tags[self.target]]),
                num_beams=beam,
                logits_processor=[self.silence],
                renormalize_logits=True,
            )
            found.append([i for i in output[0, 1:].tolist() if i not in (1, 2)])
        return found

    def silence(self, written: Tensor, scores: Tensor) -> Tensor:
        """Forbid what our search never writes: padding, and languages after the first symbol."""
        if written.shape[1] > 1:
            languages = self.rows[self.opened.tokenizer.source_only]
            scores[:, [1, *languages.tolist()]] = -torch.inf
        return scores


@pytest.fixture(scope="module", params=SHAPES)
def pair(
    request: pytest.FixtureRequest, transformers: Any, tmp_path_factory: pytest.TempPathFactory
) -> Pair:
    write, config = SHAPES[request.param]
    folder = tmp_path_factory.mktemp("m2m")
    theirs = write(transformers, folder / "theirs", SENTENCES * 20, **config)
    from_huggingface(theirs, folder / "ours")
    return Pair(transformers, theirs, folder / "ours")


def test_logits_are_equal(pair: Pair) -> None:
    torch.manual_seed(1)
    source = torch.randint(4, len(pair.rows) - 1, (3, 9))
    target = torch.randint(4, len(pair.rows) - 1, (3, 7))
    source[1, 6:] = PAD
    target[:, 0] = BOS
    actual = pair.ours.project(pair.ours(source, source != PAD, target)).detach()
    with torch.inference_mode():
        expected: Tensor = pair.theirs(
            input_ids=pair.rows[source],
            attention_mask=source != PAD,
            decoder_input_ids=pair.rows[target],
        ).logits[..., pair.rows]
    is_theirs = actual.amax(dim=(0, 1)) > -500
    assert (
        not is_theirs[BOS] and is_theirs[EOS] and is_theirs.sum() >= pair.theirs.config.vocab_size
    )
    torch.testing.assert_close(actual[..., is_theirs], expected[..., is_theirs], atol=1e-4, rtol=0)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_the_same_tokens(beam: int, engine: str, pair: Pair) -> None:
    loaded = load(
        pair.path, "cpu", engine=engine, compute_type="float32", beam=beam, tag=pair.target
    )
    translator = searching_once(loaded)
    assert translator.engine.name.startswith(engine)
    window = open_window([Line(line) for line in LINES], translator.tokenizer, translator.request)
    answers = translator.engine.search(window.sentences, translator.request).result()
    actual = [[int(pair.rows[i]) for i in best.tokens] for best, *_ in answers]
    symbol = int(pair.rows[translator.tokenizer.tags[pair.target]])
    assert all(tokens[0] == symbol for tokens in actual)
    assert actual == pair.search([sentence.source for sentence in window.sentences], beam)
    texts = [translation.text for translation in translator.results(LINES)]
    assert len(texts) == len(LINES) and not any("<" in text for text in texts)


def test_sources_have_the_ids_of_their_tokenizer(pair: Pair, transformers: Any) -> None:
    if (pair.folder / "vocab.json").exists():
        tokenizer = transformers.M2M100Tokenizer(
            str(pair.folder / "vocab.json"),
            str(pair.folder / "sentencepiece.bpe.model"),
            src_lang="fr",
        )
    else:
        tokenizer = transformers.NllbTokenizer.from_pretrained(
            pair.folder, src_lang="yor_Latn", extra_special_tokens=NLLB_LANGUAGES
        )
    source = "yor_Latn" if "yor_Latn" in pair.opened.tokenizer.tags else "fr"
    translator = load(pair.path, source_tag=source, tag=pair.target)
    window = open_window([Line(line) for line in LINES], translator.tokenizer, translator.request)
    actual = [[int(pair.rows[i]) for i in sentence.source] for sentence in window.sentences]
    expected = tokenizer(LINES)["input_ids"]
    # A new NllbTokenizer puts <mask> before the languages; published ones have it after them.
    first = 1 if source == "yor_Latn" else 0
    assert [ids[first:] for ids in actual] == [ids[first:] for ids in expected]
    assert {ids[0] for ids in actual} == {int(pair.rows[translator.tokenizer.tags[source]])}


def test_an_export_has_the_same_weights_and_files(pair: Pair, tmp_path: Path) -> None:
    export_to_huggingface(str(pair.path), tmp_path / "back")
    before, after = (load_file(f / "model.safetensors") for f in (pair.folder, tmp_path / "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    for name in ("vocab.json", "special_tokens_map.json"):
        if (pair.folder / name).exists():
            theirs, ours = (
                json.loads((f / name).read_text()) for f in (pair.folder, tmp_path / "back")
            )
            assert theirs == ours
    from_huggingface(tmp_path / "back", tmp_path / "again")
    assert open_model(tmp_path / "again").config == pair.opened.config
    assert translate(tmp_path / "again", pair.target) == translate(pair.path, pair.target)


def translate(model: Path, tag: str, **settings: Any) -> list[str]:
    return load(model, "cpu", engine="torch", tag=tag, **settings).translate(LINES)


def test_languages_have_every_code(pair: Pair) -> None:
    for name in ("de", "deu", "deu_Latn"):
        assert translate(pair.path, name) == translate(pair.path, pair.target), name
    assert translate(pair.path, "de", source_tag="en") == translate(pair.path, "de")
    assert translate(pair.path, "de", source_tag="yo") != translate(pair.path, "de")
    with pytest.raises(UserError, match="'tlh' is unknown to this model; choose from"):
        load(pair.path, tag="tlh")
    with pytest.raises(UserError, match="choose one by its tag"):
        translator: Translator = load(pair.path)
        translator.translate(LINES)
    with pytest.raises(UserError, match="'tlh' is unknown"):
        translate(pair.path, "de", source_tag="tlh")


def test_a_line_is_split_into_its_sentences(pair: Pair) -> None:
    translator = load(pair.path, "cpu", tag="de")
    line = "A dog runs. It rains in Spain."
    assert translator.translate([line]) == [" ".join(translator.translate(LINES[:3:2]))]


def test_a_prefix_follows_the_language(pair: Pair) -> None:
    lines = [Line("A dog runs.", prefix="Two"), Line("Why?")]
    first, second = load(pair.path, "cpu", tag="de").results(lines)
    assert first.text.startswith("Two")
    assert second.text == load(pair.path, "cpu", tag="de").translate(["Why?"])[0]


def test_ids_of_published_models_are_as_their_cards_say(transformers: Any) -> None:
    """Of nllb-200-distilled-600M and m2m100_418M, whose vocabularies have 256,000 and 128,004."""
    nllb = transformers.models.nllb.tokenization_nllb.FAIRSEQ_LANGUAGE_CODES
    assert 256_000 + 1 + nllb.index("eng_Latn") == 256_047
    m2m = transformers.models.m2m_100.tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    assert 128_004 + m2m.index("en") == 128_022


REFUSED: dict[str, tuple[str, dict[str, Any] | None, str]] = {
    "languages": ("special_tokens_map.json", None, "no special_tokens_map.json that lists"),
    "size": ("config.json", {"vocab_size": 20}, "symbols, but the config of the model says 20"),
    "post-norm": ("config.json", {"scale_embedding": False}, "scale_embedding is False"),
    "start": ("config.json", {"decoder_start_token_id": 0}, "supports only 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_import_that_fails_names_the_fault(case: str, transformers: Any, tmp_path: Path) -> None:
    theirs = write_nllb(transformers, tmp_path / "theirs", SENTENCES * 20)
    name, changes, message = REFUSED[case]
    (theirs / "generation_config.json").unlink()
    if changes is None:
        (theirs / name).unlink()
    else:
        (theirs / name).write_text(json.dumps(json.loads((theirs / name).read_text()) | changes))
    with pytest.raises(UserError, match=message):
        from_huggingface(theirs, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.fixture(scope="module")
def shards(transformers: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model `whole`, and `shards` with the same weights in several files."""
    folder = tmp_path_factory.mktemp("shards")
    write_nllb(transformers, folder / "whole", SENTENCES * 20)
    shutil.copytree(folder / "whole", folder / "shards")
    (folder / "shards/model.safetensors").unlink()
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder / "whole")
    model.save_pretrained(folder / "shards", max_shard_size="10KB")
    return folder


def test_shards_are_the_same_model_as_one_file(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {path.name for path in (shards / "shards").glob("*.safetensors")}
    assert len(names) > 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    expected = load_file(find_base_model(str(shards / "whole")).path / WEIGHTS)
    on_hub = Path(shutil.copytree(shards / "shards", tmp_path / "on-hub"))
    (on_hub / "model.fp16-00001-of-00001.safetensors").write_text("another variant")
    with serving({"facebook/nllb": Repository({MAIN: on_hub})}) as hub:
        use_hub(hub.url, tmp_path / "hub-cache", monkeypatch)
        for place in (str(shards / "shards"), "facebook/nllb"):
            actual = load_file(find_base_model(place).path / WEIGHTS)
            assert actual.keys() == expected.keys()
            assert all(torch.equal(actual[name], expected[name]) for name in expected)
        assert {name for name in hub.requests if name.endswith(".safetensors")} == names


SHARDS: dict[str, tuple[Callable[[dict[str, str]], Any], str]] = {
    "a missing weight": (
        lambda shards: {name: file for name, file in shards.items() if "1.fc1" not in name},
        r"index\.json: model\.decoder\.layers\.1\.fc1\.bias is missing",
    ),
    "a missing shard": (
        lambda shards: dict.fromkeys(shards, "model-7.safetensors"),
        r"has no model-7\.safetensors, which model\.safetensors\.index\.json names; add",
    ),
    "a file elsewhere": (
        lambda shards: dict.fromkeys(shards, "../x.safetensors"),
        "names '../x.safetensors', which is not a shard",
    ),
    "no shards": (lambda _: None, "has no weight_map, which lists the shards"),
}


@pytest.mark.parametrize("case", SHARDS)
def test_shards_that_cannot_be_read_are_one_line(case: str, shards: Path, tmp_path: Path) -> None:
    change, message = SHARDS[case]
    folder = Path(shutil.copytree(shards / "shards", tmp_path / "shards"))
    path = folder / marian.INDEX_FILE
    index = json.loads(path.read_text())
    path.write_text(json.dumps({"weight_map": change(index["weight_map"])}))
    with pytest.raises(UserError, match=message):
        from_huggingface(folder, tmp_path / "model")


def test_a_page_for_browsers_refuses_it_by_name(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.positions is fairseq"):
        export_to_html(str(pair.path), tmp_path / "page.html")


def test_init_adapts_a_model_of_the_hub_to_a_corpus(
    transformers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a name on the hub to a run, whose model translates without options."""
    monkeypatch.setattr("mtkit.init.trial.TRIAL_SECONDS", 0.1)
    monkeypatch.setattr("mtkit.extras.adapt.from_model.LARGE_VOCABULARY", 50)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_reversal_task(tmp_path)
    text = (tmp_path / "train.src").read_text().splitlines()
    text += (tmp_path / "train.tgt").read_text().splitlines()
    theirs = write_nllb(transformers, tmp_path / "theirs", text + SENTENCES * 200, spm_size=80)
    options = ["--from", "facebook/nllb", "--languages", "de", "yo", "--minutes", "0.5"]
    changes = ["--set", "training.steps=8", "--set", "training.max_harm=null"]
    with serving({"facebook/nllb": Repository({MAIN: theirs})}) as hub:
        use_hub(hub.url, tmp_path / "hub-cache", monkeypatch)
        assert call("init", "train.src", "train.tgt", *options, "--run", "run") == 0
        assert "drop_unused: true" in Path("mtkit.yaml").read_text()
        assert call("run", *changes) == 0
    model = tmp_path / "run"
    assert open_model(model).config.target_vocab < 88
    decoding = open_model(model).config.decoding
    assert (decoding.source_tag, decoding.tag) == ("deu_Latn", "yor_Latn")
    assert len(load(model, "cpu").translate(["ant bee", "cat"])) == 2
    with pytest.raises(UserError, match="M2M-100 has no output bias"):
        export_to_huggingface(str(model), tmp_path / "back")
