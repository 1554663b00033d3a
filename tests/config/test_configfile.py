"""Every error in a config is one line that leads to file, line and the likely right name."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from mtkit.artifacts.runs import save_config
from mtkit.config.base import first_error
from mtkit.config.corpora import TextCorpus
from mtkit.config.model import (
    EncoderDecoderSettings,
    LstmDecoderSettings,
    LstmEncoderSettings,
    Seq2SeqSettings,
    TransformerEncoderSettings,
    TransformerSettings,
)
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config, load_config, schema
from mtkit.errors import UserError

ROOT = Path(__file__).parents[2]
SHIPPED = [*sorted((ROOT / "configs").glob("*.yaml")), ROOT / "data/demo/demo.yaml"]

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


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def complaint(text: str, *overrides: str, run: str | None = None) -> str:
    Path("x.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as refused:
        load_config("x.yaml", overrides, run)
    return str(refused.value)


def load(text: str, *overrides: str) -> Config:
    Path("x.yaml").write_text(text, encoding="utf-8")
    return load_config(Path("x.yaml"), overrides)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            GOOD.replace("heads", "haeds"),
            "x.yaml:8: model.haeds: unknown setting; did you mean 'heads'?",
        ),
        (
            GOOD + "max_tokens: 5\n",
            "x.yaml:12: max_tokens: unknown setting; did you mean 'batching.max_tokens'?",
        ),
        (
            GOOD.replace("heads: 4", "attention: dot"),
            "x.yaml:8: model.attention: unknown setting; kind seq2seq has it, transformer has not",
        ),
        (
            GOOD.replace("source: b.en", "sourec: b.en"),
            "x.yaml:4: data.valid.sourec: unknown setting; did you mean 'source'? "
            "(and 1 more error)",
        ),
        (
            GOOD + "tokenizer: {zzz: 1}\n",
            "x.yaml:12: tokenizer.zzz: unknown setting; known here: type, vocab_size, joint, "
            "normalization, byte_fallback, character_coverage, sample_lines",
        ),
        (
            GOOD.replace("layers: 3", "layers: 2020-13-45"),
            "x.yaml:7: model.layers: expected a whole number, found '2020-13-45'",
        ),
        (
            GOOD.replace("layers: 3", "layers: three"),
            "x.yaml:7: model.layers: expected a whole number, found three",
        ),
        (
            GOOD.replace("layers: 3", "layers: 2.5"),
            "x.yaml:7: model.layers: expected a whole number, found 2.5",
        ),
        (
            GOOD.replace("layers: 3", "layers: true"),
            "x.yaml:7: model.layers: expected a whole number, found true",
        ),
        (
            GOOD.replace("layers: 3", "layers: 0"),
            "x.yaml:7: model.layers: should be greater than 0, found 0",
        ),
        (
            GOOD.replace("1e-3", ".inf"),
            "x.yaml:11: training.schedule.peak: should be a finite number, found .inf",
        ),
        (
            GOOD.replace("runs/x", "false"),
            "x.yaml:1: run: expected text, found false: put quotes around text",
        ),
        (
            GOOD.replace("cosine", "cosin"),
            "x.yaml:11: training.schedule.kind: expected 'noam', 'inverse_sqrt', 'cosine', "
            "'plateau', 'step', found 'cosin'",
        ),
        (
            GOOD + "tokenizer: {type: bep}\n",
            "x.yaml:12: tokenizer.type: expected 'bpe', 'unigram' or 'char', found bep",
        ),
        (
            GOOD + "tokenizer: {character_coverage: 0.9}\n",
            "x.yaml:12: tokenizer.character_coverage: should be greater than or equal to 0.98, "
            "found 0.9",
        ),
        (
            GOOD.replace("{kind: cosine, peak: 1e-3}", "cosine"),
            "x.yaml:11: training.schedule: expected settings (key: value), found cosine",
        ),
        (
            GOOD.replace(", peak: 1e-3", ""),
            "x.yaml:11: training.schedule.peak: missing, and it has no default",
        ),
        (
            GOOD.replace("heads: 4", "heads: 5"),
            "x.yaml:5: model: d_model 512 is not a multiple of heads 5",
        ),
        (
            GOOD.replace(
                "{source: a.en, target: a.ko}", "[{source: a.en, target: a.ko, wieght: 2}]"
            ),
            "x.yaml:3: data.train.0.wieght: unknown setting; did you mean 'weight'?",
        ),
        (
            GOOD.replace("{source: a.en, target: a.ko}", "a.en"),
            "x.yaml:3: data.train: expected settings (key: value), found a.en",
        ),
        (GOOD + "run: runs/y\n", "x.yaml:12: run: already set in line 1"),
        (
            GOOD.replace("  heads: 4", "  layers: 4"),
            "x.yaml:8: model.layers: already set in line 7",
        ),
        ("run: x\n\tseed: 1\n", "indent with spaces, not tabs"),
        ("run: [1\n", "x.yaml:2: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("", "x.yaml: empty: a config needs at least run, data and training"),
        ("# nothing\n", "x.yaml: empty: a config needs at least run, data and training"),
        ("- run\n", "x.yaml:1: expected settings (key: value), found a list"),
        ("A dog runs.\n", "x.yaml:1: expected settings (key: value), found text"),
        ("1: 2\n", "x.yaml:1: a key must be text: put quotes around it"),
        ("a: &a {}\n<<: *a\n", "x.yaml:2: <<: sections are not merged: write the settings out"),
        ("run: &again [*again]\n", "x.yaml: nested without end"),
        ("run: x\n---\nrun: y\n", "x.yaml:2: not YAML: but found another document"),
        ("run: !!python/object:os.system x\n", "x.yaml:1: not YAML: could not determine"),
    ],
)
def test_complaints_name_line_setting_and_remedy(text: str, line: str) -> None:
    assert line in complaint(text)


@pytest.mark.parametrize("part", ["train", "valid"])
def test_a_tag_is_one_word_and_only_marks_training_corpora(part: str) -> None:
    corpus = load(GOOD, "data.train.tag=<bt>").data.train
    assert isinstance(corpus, TextCorpus)
    assert corpus.tag == "<bt>"
    assert f"data.{part}.tag: expected one word" in complaint(GOOD, f"data.{part}.tag=a b")
    assert "tag" in complaint(GOOD, "data.valid.tag=<bt>")


@pytest.mark.parametrize(
    "override",
    [
        "training.steps=99999999999999999999",
        "data.train.weight=1e9",
        "seed=18446744073709551616",
        "training.average=9999999999",
        "training.rank_timeout=1e15",
        "batching.max_tokens=9999999999999",
        'run="a\\0b"',
    ],
)
def test_absurd_numbers_are_refused_by_name(override: str) -> None:
    assert complaint(GOOD, override).startswith(f"--set {override}: {override.split('=')[0]}: ")


def test_subwords_are_not_sampled_where_there_are_only_characters() -> None:
    overrides = "tokenizer.type=char", "training.subword_sampling={alpha: 0.1}"
    assert "a char tokenizer has one segmentation of a text" in complaint(GOOD, *overrides)


PAIR = GOOD.replace(
    "  kind: transformer\n  layers: 3\n  heads: 4\n",
    "  encoder: {layers: 3, heads: 4}\n  decoder: {kind: lstm}\n",
)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("model.encoder.haeds=3", "model.encoder.haeds: unknown setting; did you mean 'heads'?"),
        (
            "model.decoder.heads=3",
            "model.decoder.heads: unknown setting; kind transformer has it, lstm has not",
        ),
        (
            "model.layers=3",
            "model.layers: unknown setting; kind transformer or seq2seq has it, "
            "encoder-decoder has not",
        ),
        (
            "model.decoder.kind=gru",
            "model.decoder.kind: expected 'transformer', 'lstm', found 'gru'",
        ),
        ("model.encoder.heads=5", "model: d_model 512 is not a multiple of heads 5"),
        (
            "model.decoder.attention=none",
            "model.decoder: input feeding needs attention: set input_feeding: false",
        ),
    ],
)
def test_complaints_reach_into_halves(override: str, line: str) -> None:
    assert complaint(PAIR, override) == f"--set {override}: {line}"


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("{kind: seq2seq, d_model: 15}", "a bidirectional encoder needs an even d_model, not 15"),
        ("{heads: 3, d_model: 15}", "sinusoidal positions need an even d_model, not 15"),
        ("{encoder: {kind: lstm}, d_model: 24}", "d_model 24 is not a multiple of heads 7"),
    ],
)
def test_a_model_size_that_a_half_cannot_have_is_refused(model: str, line: str) -> None:
    heads = ["model.decoder.heads=7"] if "encoder" in model else []
    assert line in complaint(GOOD, f"model={model}", *heads)


@pytest.mark.parametrize(
    "model",
    [
        "{kind: seq2seq, d_model: 15, bidirectional: false}",
        "{heads: 3, d_model: 15, positions: learned}",
        "{d_model: 15, encoder: {kind: lstm, bidirectional: false}, decoder: {kind: lstm}}",
    ],
)
def test_an_odd_model_size_is_none_of_them(model: str) -> None:
    assert load(GOOD, f"model={model}").model.d_model == 15


def test_halves_are_paired_without_a_name_for_the_pair(capsys: pytest.CaptureFixture[str]) -> None:
    assert load(PAIR).model == EncoderDecoderSettings(
        encoder=TransformerEncoderSettings(layers=3, heads=4), decoder=LstmDecoderSettings()
    )
    without = GOOD.replace("model:\n  kind: transformer\n  layers: 3\n  heads: 4\n", "")
    other = load(without, "model.decoder.layers=1", "model.decoder.kind=lstm").model
    assert other == EncoderDecoderSettings(decoder=LstmDecoderSettings(layers=1))
    assert capsys.readouterr().err == ""


def test_a_half_of_another_kind_starts_from_its_own_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert load(PAIR, "model.encoder.kind=lstm").model.as_pair().encoder == LstmEncoderSettings()
    assert capsys.readouterr().err == (
        "--set model.encoder.kind=lstm: starts from the defaults of lstm; dropped: layers, heads\n"
    )
    changed = load(GOOD, "model.decoder.kind=lstm", "model.kind=encoder-decoder").model
    assert changed == EncoderDecoderSettings(decoder=LstmDecoderSettings())


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("model.haeds=3", "model.haeds: unknown setting; did you mean 'heads'?"),
        ("training.steps=x", "training.steps: expected a whole number, found x"),
        ("training.epochs=3", "training: steps and epochs are both set: set one of them to null"),
        (
            "model.kind=lstm",
            "model.kind: expected 'transformer', 'seq2seq', 'encoder-decoder', found 'lstm'",
        ),
        (
            "model.decoder.kind=lstm",
            "model.decoder: unknown setting; kind encoder-decoder has it, transformer has not",
        ),
        ("model=null", "model: expected settings (key: value), found null"),
        ("run.x=1", "no such setting: run holds 'runs/x'"),
        ("seed", "expected key.path=value, such as training.steps=500"),
        ("=3", "expected key.path=value, such as training.steps=500"),
        ("a..b=3", "expected key.path=value, such as training.steps=500"),
        ("seed=[1", "the value is not YAML: put quotes around it"),
        ("training.steps=1e5", "training.steps: expected a whole number, found 100000.0"),
        ("training.init_from=''", "training.init_from: expected a path, found ''"),
        ("training.schedule.floor=0.01", "training: schedule.floor: 0.01 is above the peak, 0.001"),
        (
            "training.schedule={kind: step, peak: 1, start: 20, every: 5}",
            "training: schedule.start: 20 lies within warmup, 4,000",
        ),
    ],
)
def test_complaints_about_an_override_name_it(override: str, line: str) -> None:
    assert complaint(GOOD, override) == f"--set {override}: {line}"


def test_the_run_option_overrides_the_file() -> None:
    Path("x.yaml").write_text(GOOD)
    assert load_config("x.yaml", run="elsewhere").run == "elsewhere"


@pytest.mark.parametrize("text", ["no", "on", "2026-02-30", "1e5x"])
def test_text_that_is_no_number_or_boolean_of_yaml_1_2_needs_no_quotes(text: str) -> None:
    assert load(GOOD, f"run={text}").run == text


@pytest.mark.parametrize(
    "override", ["seed=true", "seed='1'", "seed=1.0", "tokenizer.joint=1", "data.train.weight='2'"]
)
def test_types_are_strict(override: str) -> None:
    assert "expected" in complaint(GOOD, override)


def test_overrides_are_yaml() -> None:
    config = load(GOOD, "seed=4", "training.schedule.peak=2e-4", "data.train.weight=2")
    assert (config.seed, config.data.train) == (4, config.data.train)
    assert config.training.schedule.model_dump() == {"kind": "cosine", "peak": 2e-4, "floor": 0.0}
    listed = load(GOOD, "data.train=[{source: p, target: q}]", "data.train.0.weight=3")
    assert isinstance(listed.data.train, list)
    assert listed.data.train[0].weight == 3
    assert "entries 0 to 0" in complaint(
        GOOD, "data.train=[{source: p, target: q}]", "data.train.1.weight=3"
    )


def test_an_override_reaches_sections_that_the_file_leaves_out() -> None:
    config = load(GOOD, "training.optimizer.beta1=0.8", "decoding.beam=2")
    assert config.training.optimizer.model_dump()["beta1"] == 0.8
    assert config.training.optimizer.kind == "adam"
    assert config.decoding.beam == 2


@pytest.mark.parametrize("after", [[], ["model.layers=1"]])
def test_another_kind_starts_from_its_own_defaults(
    after: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    config = load(GOOD, *after, "model.kind=seq2seq")
    assert config.model == Seq2SeqSettings(layers=1 if after else 2)
    assert capsys.readouterr().err == (
        "--set model.kind=seq2seq: starts from the defaults of seq2seq; dropped: layers, heads\n"
    )


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_a_kind_wins_over_its_section_and_a_part_over_both_in_any_order(kind: str) -> None:
    overrides = ["training.optimizer={kind: muon, momentum: 0.5}"]
    overrides += [f"training.optimizer.kind={kind}", "training.optimizer.weight_decay=0.25"]
    for order in permutations(overrides):
        optimizer = load(GOOD, *order).training.optimizer
        assert (optimizer.kind, optimizer.weight_decay) == (kind, 0.25)


def test_what_an_alias_stands_for_is_set_in_that_place_alone() -> None:
    text = GOOD.replace("{source: b.en, target: b.ko}", "&held {source: b.en, target: b.ko}")
    found = load(text.replace("model:", "  test: *held\nmodel:"), "data.test.source=c.en")
    data = found.data.model_dump()
    assert [data[part]["source"] for part in ("valid", "test")] == ["b.en", "c.en"]


def test_a_default_may_be_written_out() -> None:
    assert load(GOOD, "model.output_bias=false") == load(GOOD)


def test_naming_the_kind_that_is_there_drops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    kept = load(GOOD, "model.kind=transformer").model
    assert kept == TransformerSettings(layers=3, heads=4)
    adam = load(GOOD + "  optimizer: {beta1: 0.8}\n", "training.optimizer.kind=adamw")
    assert adam.training.optimizer.model_dump()["beta1"] == 0.8
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_config_loads_and_survives_a_round_trip(path: Path) -> None:
    config = load_config(path)
    Path("again.yaml").write_text(dump_config(config))
    assert load_config("again.yaml") == config


def test_the_default_is_the_local_config_or_else_the_demo() -> None:
    assert load_config() == load_config(ROOT / "data/demo/demo.yaml")
    Path("mtkit.yaml").write_text(GOOD)
    assert load_config() == load(GOOD)


def test_the_run_holds_its_resolved_settings() -> None:
    config = load(GOOD)
    Path(config.run).mkdir(parents=True)
    save_config(config)
    assert load_config("runs/x/config.yaml") == config
    assert [path.name for path in Path("runs/x").iterdir()] == ["config.yaml"]


def test_the_schema_is_current() -> None:
    assert (ROOT / "configs/schema.json").read_text() == schema() + "\n", "run `make schema`"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "x.yaml: cannot read the config: No such file or directory"),
        (b"\xff\xfe\x00run", "x.yaml: not a config file: it is not UTF-8 text"),
        (b"\x00\x01", "x.yaml: not YAML: unacceptable character"),
    ],
)
def test_what_is_no_text_file_is_refused(content: bytes | None, line: str) -> None:
    if content is not None:
        Path("x.yaml").write_bytes(content)
    with pytest.raises(UserError) as refused:
        load_config("x.yaml")
    assert str(refused.value).startswith(line)


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    Path("x.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_config("x.yaml") == load(GOOD)


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


@given(st.text())
def test_any_text_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("any") / "x.yaml"
    path.write_bytes(text.encode("utf-8", "replace"))
    with pytest.raises(UserError):
        load_config(path)


def test_a_type_without_words_of_its_own_is_told_in_those_of_pydantic() -> None:
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(tuple[int, int]).validate_python(3)
    assert first_error(raised.value) == ("", "should be a valid tuple, found 3")
