"""A config is read exactly, or refused with the place of the setting and a way to mend it."""

from __future__ import annotations

import json
import re
import string
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from json_schema import schema
from mtkit.config.corpora import TextCorpus
from mtkit.config.model import (
    EncoderDecoderSettings,
    LstmDecoderSettings,
    LstmEncoderSettings,
    Seq2SeqSettings,
    TransformerEncoderSettings,
    TransformerSettings,
)
from mtkit.config.parse import parse_file, parse_value, write_yaml
from mtkit.config.reference import explain_settings
from mtkit.config.settings import Config, Sgd
from mtkit.config.yaml import demo_config, dump_config, load_config, load_saved_config, read_config
from mtkit.errors import UserError
from settings_page import settings_page

ROOT = Path(__file__).parents[2]
SHIPPED = [*sorted((ROOT / "configs").glob("*.yaml")), ROOT / "mtkit/demo/demo.yaml"]

GOOD = """\
run: runs/x
data:
  train: {source: a.en, target: a.ko}
  valid: {source: b.en, target: b.ko}
model:
  kind: transformer
  layers: 3
  heads: 4
training:
  steps: 100
  schedule: {kind: cosine, peak: 1e-3}
"""
PAIR = GOOD.replace(
    "  kind: transformer\n  layers: 3\n  heads: 4\n",
    "  encoder: {layers: 3, heads: 4}\n  decoder: {kind: lstm}\n",
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def complaint(text: str, *overrides: str, run: str | None = None) -> str:
    Path("x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        read_config("x.yaml", overrides, run)
    return str(refused.value)


def load(text: str, *overrides: str) -> Config:
    Path("x.yaml").write_text(text, encoding="utf-8")
    return load_config(Path("x.yaml"), overrides)


# Errors in a file: what is replaced in GOOD by what, the place, and what the message says


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("heads", "haeds", "x.yaml:8: model.haeds: ", "did you mean 'heads'?"),
        ("model:", "max_tokens: 5\nmodel:", "x.yaml:5: max_tokens: ", "'batching.max_tokens'?"),
        ("heads: 4", "attention: dot", "x.yaml:8: model.attention: ", "kind seq2seq has it"),
        ("source: b.en", "sourec: b.en", "x.yaml:4: data.valid.sourec: ", "'source'? (and 1 more"),
        ("model:", "tokenizer: {zzz: 1}\nmodel:", "x.yaml:5: tokenizer.zzz: ", "choose from type"),
        ("layers: 3", "layers: three", "x.yaml:7: model.layers: ", "a whole number, found three"),
        ("layers: 3", "layers: 0", "x.yaml:7: model.layers: ", "greater than 0, found 0"),
        ("1e-3", ".inf", "x.yaml:11: training.schedule.peak: ", "finite number, found .inf"),
        ("runs/x", "12", "x.yaml:1: run: ", "expected text, found 12"),
        ("cosine", "cosin", "x.yaml:11: training.schedule.kind: ", "'cosine'"),
        ("{kind: cosine, peak: 1e-3}", "cosine", "x.yaml:11: training.schedule: ", "settings"),
        (", peak: 1e-3", "", "x.yaml:11: training.schedule.peak: ", "missing"),
        ("heads: 4", "heads: 5", "x.yaml:5: model: ", "d_model 512 is not a multiple of heads 5"),
        ("source: a.en,", "source: a.en, wieght: 2,", "x.yaml:3: data.train.wieght: ", "'weight'?"),
        ("training:", "run: runs/y\ntraining:", "x.yaml:9: run", "already set in line 1"),
    ],
)
def test_an_error_names_line_setting_and_remedy(old: str, new: str, place: str, words: str) -> None:
    message = complaint(GOOD.replace(old, new, 1))
    assert message.startswith(place) and words in message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("run: x\n\tseed: 1\n", "indent with spaces, not tabs"),
        ("run: [1\n", "x.yaml:2: not YAML "),
        ("# nothing\n", "x.yaml: expected settings (key: value)"),
        ("- run\n", "x.yaml: expected settings (key: value)"),
        ("1: 2\n", "x.yaml:1: keys must be text"),
        ("a: &a {}\n<<: *a\n", "x.yaml:2: keys must be text: put quotes around numbers; merge"),
        ("run: &again [*again]\n", "x.yaml: not YAML ("),
        ("run: x\n---\nrun: y\n", "x.yaml:2: not YAML (but found another document"),
        ("run: !!python/object:os.system x\n", "x.yaml:1: not YAML (could not determine"),
    ],
)
def test_other_text_is_not_a_config(text: str, line: str) -> None:
    assert line in complaint(text)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00run", b"\x00\x01"])
def test_other_files_are_not_configs(content: bytes | None) -> None:
    if content is not None:
        Path("x.yaml").write_bytes(content)
    with pytest.raises(UserError, match=r"^x\.yaml"):
        load_config("x.yaml")


def test_the_config_of_a_run_of_another_version_opens_with_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved = Path("config.yaml")
    saved.write_text(GOOD.replace("layers: 3", "layers: 3\n  depth: 4") + "  compile: false\n")
    assert load_saved_config(saved) == load(GOOD)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: config.yaml: ") and "model.depth, training.compile" in line
    saved.write_text(GOOD.replace("layers: 3", "layers: three"))
    with pytest.raises(UserError, match=r"config\.yaml:7: model\.layers: expected a whole number"):
        load_saved_config(saved)


def test_a_byte_order_mark_is_skipped() -> None:
    Path("x.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_config("x.yaml") == load(GOOD)


# Overrides


@pytest.mark.parametrize(
    ("text", "override", "words"),
    [
        (GOOD, "model.haeds=3", "model.haeds: unknown setting; did you mean 'heads'?"),
        (GOOD, "training.epochs=3", "training: steps and epochs are both set"),
        (GOOD, "model.kind=lstm", "model.kind: expected 'transformer', 'seq2seq', 'encoder-dec"),
        (GOOD, "model.decoder.kind=lstm", "only kind encoder-decoder has it"),
        (GOOD, "model=null", "model: expected settings (key: value), found null"),
        (GOOD, "run.x=1", "no such setting, because run is 'runs/x'"),
        (GOOD, "seed", "expected key.path=value, such as training.steps=500"),
        (GOOD, "a..b=3", "expected key.path=value, such as training.steps=500"),
        (GOOD, "seed=[1", "the value is not YAML"),
        (GOOD, "training.init_from=''", "training.init_from: expected a path, found ''"),
        (GOOD, "seed=18446744073709551616", "seed: "),
        (GOOD, "training.schedule.floor=0.01", "schedule.floor, 0.01, is above"),
        (GOOD, "data.train.0.weight=3", "data.train.0: unknown setting"),
        (PAIR, "model.decoder.heads=3", "only kind transformer has it"),
        (PAIR, "model.layers=3", "only kind transformer or seq2seq has it"),
        (PAIR, "model.decoder.kind=gru", "model.decoder.kind: expected 'transformer', 'lstm'"),
        (PAIR, "model.decoder.attention=none", "model.decoder: input feeding needs attention"),
    ],
)
def test_an_error_of_an_override_names_it(text: str, override: str, words: str) -> None:
    message = complaint(text, override)
    assert message.startswith(f"--set {override}: ") and words in message


@pytest.mark.parametrize(
    "override", ["seed=true", "seed='1'", "seed=1.0", "tokenizer.joint=1", "data.train.weight='2'"]
)
def test_types_are_strict(override: str) -> None:
    assert "expected" in complaint(GOOD, override)


TEXTS = ["no", "Yes", "on", "OFF", "y", "2026-02-30", "1e5x", "1:30", "12:30:45", "1:30.5", "1_000"]
TEXTS += ["0b11", "0o8", "-0o7", "0x", "=", ".", ".e3", "1e", "e3", "12e03.", "++1", "nUll"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_is_no_number_or_boolean_of_yaml_1_2_needs_no_quotes(text: str) -> None:
    assert load(GOOD, f"run={text}").run == text
    assert load(GOOD.replace("runs/x", text)).run == text


NUMBERS = {"0100": 100, "010": 10, "08": 8, "+12": 12, "-0": 0, "0o17": 15, "0x1F": 31}
NUMBERS |= {"00": 0, "12345678901234567890": 12345678901234567890}
FRACTIONS = {".5": 0.5, "-.5": -0.5, "5.": 5.0, "1e3": 1000.0, "1E-3": 0.001, "0.1e+2": 10.0}
FRACTIONS |= {"012.50": 12.5, "+1.5": 1.5}


@pytest.mark.parametrize(("text", "value"), [*NUMBERS.items(), *FRACTIONS.items()])
def test_numbers_are_those_of_yaml_1_2(text: str, value: float) -> None:
    parsed = parse_value(text)
    assert parsed == value and type(parsed) is type(value)
    Path("numbers.yaml").write_text(f"number: {text}\nlist: [{text}, {text}]\n", encoding="utf-8")
    data, _ = parse_file(Path("numbers.yaml"))
    assert data == {"number": value, "list": [value, value]}


plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" ")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(string.ascii_letters), inner),
    max_leaves=10,
)


@given(plain_json)
def test_json_is_read_as_json(value: Any) -> None:
    """YAML 1.2 contains JSON, which PyYAML's rules for numbers do not."""
    assert parse_value(json.dumps(value, ensure_ascii=False)) == value


@given(st.sampled_from(TEXTS) | st.sampled_from([*NUMBERS, *FRACTIONS]) | st.text(), plain_json)
def test_written_settings_are_read_alike_by_both_versions_of_yaml(text: str, other: Any) -> None:
    value = {"text": text, "other": other}
    for written in (write_yaml(value), write_yaml(value, in_one_line=True)):
        assert parse_value(written) == value
        assert yaml.safe_load(written) == value


def test_overrides_are_yaml() -> None:
    config = load(GOOD, "seed=4", "training.schedule.peak=2e-4", "training.optimizer.beta1=0.8")
    assert config.seed == 4
    assert config.training.optimizer.model_dump()["beta1"] == 0.8
    assert config.training.schedule.model_dump() == {"kind": "cosine", "peak": 2e-4, "floor": 0.0}
    listed = load(GOOD, "data.train=[{source: p, target: q}]", "data.train.0.weight=3").data.train
    assert isinstance(listed, list)
    assert listed[0].weight == 3
    assert "entries 0 to 0" in complaint(
        GOOD, "data.train=[{source: p, target: q}]", "data.train.1.weight=3"
    )


def test_the_run_option_overrides_the_file() -> None:
    Path("x.yaml").write_text(GOOD)
    assert read_config("x.yaml", [], "elsewhere")[0].run == "elsewhere"
    message = complaint(GOOD, "run=b", run="a")
    assert message == "--run a and --set run=b both set run; keep one of them"


@pytest.mark.parametrize("after", [[], ["model.layers=1"]])
def test_another_kind_keeps_what_both_kinds_have(
    after: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    config = load(GOOD, *after, "model.kind=seq2seq")
    assert config.model == Seq2SeqSettings(layers=1 if after else 3)
    assert capsys.readouterr().err == "--set model.kind=seq2seq keeps layers, and drops heads\n"
    back = load(GOOD, "model={kind: seq2seq, layers: 1}", "model.kind=transformer")
    assert back.model == TransformerSettings(layers=1)
    pair = load(PAIR, "model.encoder.kind=lstm").model.as_pair()
    assert pair.encoder == LstmEncoderSettings(layers=load(PAIR).model.as_pair().encoder.layers)
    adam = GOOD + "  optimizer: {beta1: 0.8, weight_decay: 0.1}\n"
    assert load(adam, "training.optimizer.kind=sgd").training.optimizer == Sgd(weight_decay=0.1)


@pytest.mark.parametrize("kind", ["transformer", "seq2seq", "nonsense"])
def test_another_kind_hides_no_mistake(kind: str) -> None:
    wrong = "heads" if kind == "nonsense" else "haeds"
    assert f"model.{'kind' if kind == 'nonsense' else wrong}: " in complaint(
        GOOD.replace("heads", wrong), f"model.kind={kind}"
    )


def test_the_same_kind_drops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert load(GOOD, "model.kind=transformer").model == TransformerSettings(layers=3, heads=4)
    adam = load(GOOD + "  optimizer: {beta1: 0.8}\n", "training.optimizer.kind=adamw")
    assert adam.training.optimizer.model_dump()["beta1"] == 0.8
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_sections_then_kinds_then_settings_are_set_in_any_order_of_options(kind: str) -> None:
    overrides = ["training.optimizer={kind: muon, momentum: 0.5}"]
    overrides += [f"training.optimizer.kind={kind}", "training.optimizer.weight_decay=0.25"]
    for order in permutations(overrides):
        optimizer = load(GOOD, *order).training.optimizer
        assert (optimizer.kind, optimizer.weight_decay) == (kind, 0.25)


def test_changing_an_alias_leaves_the_other_place_alone() -> None:
    text = GOOD.replace("{source: b.en, target: b.ko}", "&held {source: b.en, target: b.ko}")
    config = load(text.replace("model:", "  test: *held\nmodel:"), "data.test.source=c.en")
    data = config.data.model_dump()
    assert [data[part]["source"] for part in ("valid", "test")] == ["b.en", "c.en"]


# Sections


def test_an_encoder_and_a_decoder_need_no_kind_for_the_pair() -> None:
    assert load(PAIR).model == EncoderDecoderSettings(
        encoder=TransformerEncoderSettings(layers=3, heads=4), decoder=LstmDecoderSettings()
    )
    without = GOOD.replace("model:\n  kind: transformer\n  layers: 3\n  heads: 4\n", "")
    other = load(without, "model.decoder.layers=1", "model.decoder.kind=lstm").model
    assert other == EncoderDecoderSettings(decoder=LstmDecoderSettings(layers=1))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("{kind: seq2seq, d_model: 15}", "a bidirectional encoder needs an even d_model, not 15"),
        ("{heads: 3, d_model: 15}", "sinusoidal positions need an even d_model, not 15"),
        ("{kind: seq2seq, d_model: 15, bidirectional: false}", None),
    ],
)
def test_an_odd_model_size_is_refused_if_something_needs_halves(
    model: str, words: str | None
) -> None:
    if words is None:
        assert load(GOOD, f"model={model}").model.d_model == 15
    else:
        assert words in complaint(GOOD, f"model={model}")


def test_a_tag_is_one_word_and_only_marks_training_corpora() -> None:
    corpus = load(GOOD, "data.train.tag=<bt>").data.train
    assert isinstance(corpus, TextCorpus)
    assert corpus.tag == "<bt>"
    assert "data.train.tag: expected one word" in complaint(GOOD, "data.train.tag=a b")
    assert "tag" in complaint(GOOD, "data.valid.tag=<bt>")


# Files


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_config_survives_a_round_trip(path: Path) -> None:
    config = load_config(path)
    Path("again.yaml").write_text(dump_config(config))
    assert load_config("again.yaml") == config


def test_the_default_is_the_local_config() -> None:
    with pytest.raises(UserError, match=r"no mtkit\.yaml here.*mtkit init.*--demo"):
        load_config()
    Path("mtkit.yaml").write_text(GOOD)
    assert load_config() == load(GOOD)
    assert load_config(demo_config()) == load_config(ROOT / "mtkit/demo/demo.yaml")


def test_the_schema_and_the_settings_page_are_current() -> None:
    assert (ROOT / "configs/schema.json").read_text() == schema() + "\n", "run `make schema`"
    assert (ROOT / "configs/SETTINGS.md").read_text() == settings_page(), "run `make schema`"


def test_every_setting_is_described() -> None:
    definitions = [Config.model_json_schema(), *Config.model_json_schema()["$defs"].values()]
    for section in definitions:
        assert section["description"]
        for name, node in section["properties"].items():
            assert name == "kind" or node.get("description"), f"{section['title']}.{name}"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_explained_settings_are_the_same_config_in_80_columns(path: Path) -> None:
    config = load_config(path)
    lines = list(explain_settings(config.model_dump(mode="json")))
    Path("explained.yaml").write_text("\n".join(lines))
    assert load_config("explained.yaml") == config
    assert max(len(line) for line in lines if line.lstrip().startswith("#")) <= 80
    values = [at for at, line in enumerate(lines) if re.match(r" *\w+: \S", line)]
    assert all(lines[at - 1].lstrip().startswith("#") for at in values)


def test_explained_settings_of_several_corpora_are_the_same_config() -> None:
    config = load(GOOD, "data.train=[{source: p, target: q, tag: <bt>}, {table: [t.tsv, u.tsv]}]")
    Path("explained.yaml").write_text("\n".join(explain_settings(config.model_dump(mode="json"))))
    assert load_config("explained.yaml") == config


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
names = st.sampled_from(["run", "data", "train", "source", "model", "kind", "training", "steps"])
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(names | st.text(), inner)
)


@pytest.mark.slow
@given(documents, st.lists(st.tuples(st.lists(names, min_size=1).map(".".join), documents)))
def test_any_document_loads_or_is_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, document: object, changes: list[tuple[str, object]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "x.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    flow = [f"{key}={yaml.safe_dump(value, default_flow_style=True)}" for key, value in changes]
    try:
        load_config(path, flow)
    except UserError as error:
        assert str(error)


@given(documents)
def test_settings_of_other_versions_are_explained_as_far_as_they_are_known(document: Any) -> None:
    settings = json.loads(json.dumps({"model": document, "seed": document, "x": document}))
    lines = [line for line in explain_settings(settings) if not line.lstrip().startswith("#")]
    assert [line for line in lines if line.startswith("x")]
