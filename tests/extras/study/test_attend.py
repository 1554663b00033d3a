"""`mtkit attend`: the weights are those that the model uses, and every view shows them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from torch import Tensor, nn

from architectures import ARCHITECTURES, make, sources, targets
from commands import Stdin
from folders import tokenizer_in
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import EngineOptions, Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.reading import (
    AttentionKind,
    AttentionMap,
    Reader,
    attention_maps,
    attention_weights,
    label_words,
)
from mtkit.errors import UserError
from mtkit.extras.study.attend.page import (
    TEMPLATE,
    describe_attention,
    describe_positions,
    describe_search,
    make_page,
)
from mtkit.extras.study.attend.show import attend, draw_terminal
from mtkit.extras.study.attend.tree import search_tree
from mtkit.models.attention import GlobalAttention, MultiHeadAttention
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import open_model
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.train import train
from tasks import tiny_config

Capture = pytest.CaptureFixture[str]
PAGE = Path("attention.html")
with_attention = pytest.mark.parametrize(
    "name", [name for name in ARCHITECTURES if name != "seq2seq-none"]
)


class Recorder:
    """Inputs and outputs of the attention modules of a model, call by call."""

    def __init__(self, model: EncoderDecoder) -> None:
        self.calls: list[tuple[Any, tuple[Any, ...], Tensor]] = []
        for module in model.modules():
            if isinstance(module, MultiHeadAttention | GlobalAttention):
                module.register_forward_hook(self._record)

    def _record(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        self.calls.append((module, inputs, output[0]))


def output_of(module: Any, inputs: tuple[Any, ...], weights: Tensor) -> Any:
    """Return the output of the layer for weights (1, H, Q, K), by its equation."""
    if isinstance(module, MultiHeadAttention):
        x, seen = inputs[:2]
        heads = weights @ seen.value  # (1, H, Q, D/H)
        return module.output(heads.transpose(1, 2).reshape(x.shape))
    state, _, memory, _ = inputs
    return torch.tanh(module.combine(torch.cat([weights[:, 0] @ memory, state], dim=-1)))


@with_attention
def test_weights_times_values_are_the_output_of_the_layer(name: str) -> None:
    model, source, target = make(name), sources([7]), targets(1, 5)
    recorder = Recorder(model)
    shown = {kind: of.double() for kind, of in attention_weights(model, source, target).items()}
    order = [*shown.get("encoder", ())]
    if "decoder" in shown:
        for own, cross in zip(shown["decoder"], shown["cross"], strict=True):
            order += [own, cross]
    else:  # an LSTM with input feeding attends from one position at a time
        order += shown["cross"][0].split(5 // (len(recorder.calls) - len(order)), dim=1)
    assert len(order) == len(recorder.calls)
    for of_layer, (module, inputs, output) in zip(order, recorder.calls, strict=True):
        torch.testing.assert_close(
            output_of(module, inputs, of_layer.unsqueeze(0)), output, atol=1e-6, rtol=1e-5
        )


@with_attention
def test_weights_sum_to_one_and_the_decoder_sees_no_later_word(name: str) -> None:
    shown = attention_weights(make(name), sources([7]), targets(1, 5))
    for weights in shown.values():
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
    if "decoder" in shown:
        assert shown["decoder"].triu(1).abs().max() == 0
        seen = torch.ones(5, 5, dtype=torch.bool).tril()
        assert (shown["decoder"][..., seen] > 0).all()


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ("▁the ▁lib rary . ▁Ok", "the|library.|Ok"),
        ("▁도서관 에서 ▁책 을", "도서관에서|책을"),
        ("▁ 日本 語 で す。", "日本|語|で|す。"),  # without spaces a subword is a word
        ("▁私 は ▁Linux が ▁好き", "私|は|Linux|が|好き"),
        ("▁na <0xC3> <0xAF> ve ▁<unk> !", "naïve|<unk>!"),
        ("▁ <0xFF>", "\N{REPLACEMENT CHARACTER}"),
        ("▁a\x1b[2J\u202e", r"a\x1b[2J\u202e"),
        ("", ""),
    ],
)
def test_subwords_are_merged_into_words_in_every_script(pieces: str, words: str) -> None:
    labels = label_words(pieces.split(" ") if pieces else [])
    assert "|".join(text for text, _ in labels) == words
    assert sum(count for _, count in labels) == len(pieces.split())


def heat_map(
    queries: list[str],
    keys: list[str],
    *,
    kind: AttentionKind = "cross",
    layers: int = 1,
    heads: int = 1,
) -> AttentionMap:
    torch.manual_seed(0)
    weights = (3 * torch.randn(layers, heads, len(queries), len(keys))).softmax(dim=-1)
    return AttentionMap(kind, queries, keys, weights)


def text_of(translation: str, shown: AttentionMap, width: int) -> str:
    return "".join(text for text, _ in draw_terminal(translation, shown, width))


ENGLISH = ["I", "read", "a", "book", "at", "the", "library.", "</s>"]
KOREAN = ["저는", "도서관에서", "책을", "읽었어요.", "</s>"]
JAPANESE = [
    "図書館",
    "で",
    "本",
    "を",
    "読み",
    "まし",
    "た。",
    "e\N{COMBINING ACUTE ACCENT}",
    "</s>",
]


@pytest.mark.parametrize("queries", [ENGLISH, KOREAN, JAPANESE], ids=["en", "ko", "ja"])
@pytest.mark.parametrize("keys", [ENGLISH, KOREAN, JAPANESE], ids=["en", "ko", "ja"])
@pytest.mark.parametrize("width", [30, 80])
def test_columns_are_aligned_in_the_terminal_in_every_script(
    queries: list[str], keys: list[str], width: int
) -> None:
    shown = heat_map(queries, keys)
    lines = text_of("…", shown, width).split("\n")[2:-5]
    assert max(map(cell_len, lines)) <= width
    cells: dict[str, list[int]] = {query: [] for query in queries}
    for block in "\n".join(lines).split("\n\n"):
        rows = block.split("\n")[-len(queries) :]
        assert len({cell_len(row) for row in rows}) <= 1
        for query, row in zip(queries, rows, strict=True):
            label, _, numbers = row.strip().partition(" ")
            assert label == query
            cells[query] += [int(number.replace("·", "0")) for number in numbers.split()]
    for query, row in zip(queries, shown.weights[0, 0].tolist(), strict=True):
        assert cells[query] == pytest.approx([100 * weight for weight in row], abs=0.51)


@pytest.mark.parametrize("width", [1, 20, 80])
def test_a_map_of_any_length_keeps_every_word_in_a_terminal_of_any_width(width: int) -> None:
    keys = [f"{'long' * (i % 5)}{i}" for i in range(60)]
    lines = text_of("…", heat_map(["w" * 50, "</s>"], keys), width).split("\n")
    rows = [line for line in lines if line.strip().startswith("</s>")]
    assert sum(len(row.split()) - 1 for row in rows) == 60
    assert max(map(cell_len, lines[:-5])) <= max(width, 30)


def test_the_terminal_shows_the_mean_of_layers_and_heads() -> None:
    shown = heat_map(["a", "b"], ["c", "d"], layers=3, heads=4)
    mean = replace(shown, weights=shown.weights.flatten(0, 1).mean(dim=0).view(1, 1, 2, 2))
    assert list(draw_terminal("x", shown, 80)) == list(draw_terminal("x", mean, 80))


def test_larger_weights_are_lighter() -> None:
    row = torch.linspace(0, 1, 9).view(1, 1, 1, 9)
    shown = replace(heat_map(["q"], list("abcdefghi")), weights=row)
    styles = [style for _, style in draw_terminal("", shown, 80) if "rgb" in style]
    light = [sum(map(int, re.findall(r"\d+", style.partition("rgb")[2]))) for style in styles]
    assert light == sorted(set(light))


@pytest.fixture(scope="module")
def tokenizer(prepared: Path) -> Tokenizer:
    return tokenizer_in(prepared / "run" / "tokenizer")


@pytest.fixture
def reader(tokenizer: Tokenizer) -> Callable[[str], Reader]:
    """Makes readers with untrained models."""

    def make_reader(name: str) -> Reader:
        settings = tiny_config(Path(), "transformer").decoding
        model = EncoderDecoder(ARCHITECTURES[name], tokenizer.source_vocab, tokenizer.target_vocab)
        return Reader(model.eval(), tokenizer, settings)

    return make_reader


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("transformer", {"cross", "encoder", "decoder"}), ("seq2seq-dot", {"cross"})],
)
def test_attention_maps_are_labelled_for_every_kind_of_attention(
    name: str, kinds: set[str], reader: Callable[[str], Reader]
) -> None:
    one = reader(name)
    reading = one.read("ant bee cat", "CAT BEE ANT")
    maps = attention_maps(one, reading)
    source, written = ["ant", "bee", "cat", "</s>"], ["CAT", "BEE", "ANT", "</s>"]
    assert reading.translation == "CAT BEE ANT"
    assert {kind: of.kind for kind, of in maps.items()} == {kind: kind for kind in kinds}
    assert (maps["cross"].queries, maps["cross"].keys) == (written, source)
    if "encoder" in maps:
        assert (maps["encoder"].queries, maps["encoder"].keys) == (source, source)


@pytest.mark.parametrize("subwords", [False, True])
def test_the_map_of_the_decoder_is_a_triangle_of_subwords(
    subwords: bool, reader: Callable[[str], Reader]
) -> None:
    one = reader("transformer")
    shown = attention_maps(one, one.read("ibis", "SIBI IBIS", subwords=subwords))["decoder"]
    assert len(shown.queries) > 3  # more subwords than words
    assert shown.queries[:-1] == shown.keys[1:]
    assert (shown.queries[-1], shown.keys[0]) == ("</s>", "<s>")
    assert shown.weights.triu(1).abs().max() == 0
    assert (shown.weights[..., torch.ones_like(shown.weights[0, 0]).tril() > 0] > 0).all()


@pytest.mark.parametrize(
    ("text", "target", "key"),
    [
        ("", None, "text is blank"),
        (" \t ", None, "text is blank"),
        ("ant", "", "target: "),
        ("ant", "ANT " * 30, "target: "),
        ("ant " * 30, None, "text "),
    ],
)
def test_what_cannot_be_read_is_refused(
    text: str, target: str | None, key: str, reader: Callable[[str], Reader]
) -> None:
    with pytest.raises(UserError, match=f"^{key}"):
        reader("transformer").read(text, target)


def test_several_sentences_are_refused_where_they_are_translated_one_by_one(
    reader: Callable[[str], Reader],
) -> None:
    one = reader("transformer")
    assert one.read("ant bee. Cat dog.").source_ids
    by_sentence = replace(one, settings=one.settings.model_copy(update={"sentences": "en"}))
    assert by_sentence.read("ant.").source_ids
    with pytest.raises(UserError, match=r"^text is translated in 2 parts"):
        by_sentence.read("ant bee. Cat dog.")


def test_a_model_without_attention_is_refused(reader: Callable[[str], Reader]) -> None:
    one = reader("seq2seq-none")
    with pytest.raises(UserError, match=r"^the model has no attention \(model.attention: none\)"):
        attention_maps(one, one.read("ant bee"))


def test_a_sentence_is_truecased_and_loses_unknown_emoji_as_in_translate(
    reader: Callable[[str], Reader],
) -> None:
    one = reader("transformer")
    truecased = replace(one, settings=one.settings.model_copy(update={"truecase": True}))
    title, words = "Ibis Ibis Ibis Ibis", "ibis ibis ibis ibis"
    assert truecased.read(f"{title} \U0001f41d").source_ids == one.read(words).source_ids
    assert one.read(title).source_ids != one.read(words).source_ids


@pytest.fixture(scope="module")
def run(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A trained run."""
    folder = tmp_path_factory.mktemp("attend") / "run"
    shutil.copytree(prepared / "run", folder)
    with chdir(folder):  # where the link to the last run goes
        train(tiny_config(prepared, "transformer").model_copy(update={"run": str(folder)}))
    return str(folder)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def translated(run: str, lines: list[str]) -> list[str]:
    """Translate with the engine whose attention is shown; others may round."""
    opened = open_model(run)
    engine = PyTorchEngine.load([opened], EngineOptions(device="cpu"))
    return Translator(engine, opened.tokenizer, Request(opened.config.decoding)).translate(lines)


def test_each_line_gives_its_translation_and_a_heat_map(
    run: str, stdin: Stdin, capsys: Capture
) -> None:
    lines = ["ant bee", "jay", "fox eel dog"]
    stdin("".join(f"{line}\n" for line in lines))
    attend(run)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown  # colours only in a terminal
    for line, translation in zip(lines, translated(run, lines), strict=True):
        assert f"{translation}\n\n" in shown
        assert " ".join([*line.split(), "</s>"]) in shown
    assert shown.count("rows: target words; columns: source words") == 3


def test_blank_lines_are_left_out(run: str, stdin: Stdin, capsys: Capture) -> None:
    attend(run, "ant bee")
    first = capsys.readouterr().out
    stdin("\nant bee\n \t\nant bee\n")
    attend(run)
    assert capsys.readouterr().out == 2 * first


def test_a_page_shows_the_only_line_that_is_not_blank(
    run: str, stdin: Stdin, capsys: Capture
) -> None:
    stdin("\nant bee\n")
    attend(run, output=PAGE)
    assert capsys.readouterr().out == translated(run, ["ant bee"])[0] + "\n"
    assert '"ant"' in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["x.svg", "x", "no/x.html"])
def test_a_page_that_cannot_be_written_is_refused(name: str, run: str) -> None:
    with pytest.raises(UserError, match=f"^{name}"):
        attend(run, "ant", Path(name))


@pytest.mark.parametrize(
    ("text", "options", "line"),
    [
        ("", {}, "stdin is empty"),
        ("\n \n", {"output": PAGE}, "0 sentences"),
        ("ant\nbee\n", {"output": PAGE}, "2 sentences"),
    ],
)
def test_input_that_cannot_be_shown_is_refused(
    text: str, options: dict[str, Any], line: str, run: str, stdin: Stdin
) -> None:
    stdin(text)
    with pytest.raises(UserError, match=f"^{line}"):
        attend(run, **options)
    assert not PAGE.exists()


def test_invalid_utf8_on_the_command_line_is_replaced(run: str, capsys: Capture) -> None:
    attend(run, "ant \udcff")
    assert " ant " in capsys.readouterr().out


HOSTILE = 'a </script><script>document.title="broken out"</script> & <b>"b"</b> DATA'


TRANSLATION = "나는 <img src=x>"


def all_maps(**shape: int) -> list[AttentionMap]:
    source, written = ["I", HOSTILE, "</s>"], ["나는", "<img src=x>", "</s>"]
    return [
        heat_map(source, source, kind="encoder", **shape),
        heat_map(written, ["<s>", *written[:-1]], kind="decoder", **shape),
        heat_map(written, source, kind="cross", **shape),
    ]


def data_of(html: str) -> Any:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', html)
    assert match
    return json.loads(match[1])


def test_the_page_holds_all_weights_and_text_cannot_become_code() -> None:
    shown = all_maps(layers=2, heads=3)
    described = describe_attention(shown, ARCHITECTURES["transformer"].as_pair())
    html = make_page({"source": HOSTILE, "translation": TRANSLATION, "kinds": described})
    assert html.count("</script>") == TEMPLATE.read_text().count("</script>")
    content = data_of(html)
    assert (content["source"], content["translation"]) == (HOSTILE, TRANSLATION)
    for kind, of_kind in zip(content["kinds"], shown, strict=True):
        assert kind["kind"] == of_kind.kind
        assert (kind["queries"], kind["keys"]) == (of_kind.queries, of_kind.keys)
        torch.testing.assert_close(torch.tensor(kind["weights"]), of_kind.weights,
                                   atol=0.00051, rtol=0)  # fmt: skip


def test_the_page_writes_text_as_text_only() -> None:
    script = TEMPLATE.read_text(encoding="utf-8").rpartition("<script>")[2]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)


@pytest.mark.parametrize(
    ("name", "equations"),
    [
        ("transformer", ["softmax(Q Kᵀ / √d_head), d_head = 16 / 4 = 4"] * 3),
        ("seq2seq-dot", ["softmax(s · hᵀ), s: state of the decoder, h: states of the encoder"]),
        ("seq2seq-general", ["softmax(s · W_a · hᵀ), "]),
        ("seq2seq-additive", ["softmax(v · tanh(W s + U h)), "]),
    ],
)
def test_each_kind_of_attention_has_its_equation(
    name: str, equations: list[str], reader: Callable[[str], Reader]
) -> None:
    one = reader(name)
    maps = attention_maps(one, one.read("ant bee", "BEE ANT")).values()
    described = describe_attention(maps, one.model.settings)
    for of_kind, equation in zip(described, equations, strict=True):
        assert of_kind["equation"].startswith(equation)


@pytest.mark.parametrize(
    ("name", "has_positions"),
    [("transformer", True), ("transformer-no-positions", False), ("seq2seq-dot", False)],
)
def test_the_page_has_positions_of_subwords_if_the_encoder_adds_them(
    name: str, has_positions: bool, reader: Callable[[str], Reader]
) -> None:
    one = reader(name)
    reading = one.read("ibis ant", "TNA")
    described = describe_positions(one, reading)
    assert (described is not None) == has_positions
    if described is not None:
        assert len(described["subwords"]) == len(reading.source_ids) + 1  # with </s>
        assert described["size"] == 16


def test_the_page_of_a_run_has_its_schedule_and_the_search_of_its_translation(run: str) -> None:
    attend(run, "ant bee cat", PAGE)
    content = data_of(PAGE.read_text(encoding="utf-8"))
    assert content["schedule"]["formula"].startswith("Linear warmup to peak")
    assert content["schedule"]["warmup"] == 4
    assert content["schedule"]["points"][3] == [4, 0.01]  # the peak
    assert content["schedule"]["points"][-1][0] == 12
    assert content["search"]["finished"][0]["text"] == content["translation"]


def test_the_page_leaves_out_what_is_unknown(run: str, tmp_path: Path) -> None:
    model = tmp_path / "copied" / "model"
    shutil.copytree(Path(run) / "model", model)
    attend(str(model), "ant bee cat", PAGE)
    content = data_of(PAGE.read_text(encoding="utf-8"))
    assert content["schedule"] is None  # a model without its run


def test_the_page_needs_no_network() -> None:
    template = TEMPLATE.read_text(encoding="utf-8")
    assert "default-src 'none'" in template
    assert not re.search(r"\b(src|href)=|url\(|@import|\bimport\b|fetch\(", template)
    assert set(re.findall(r"https?://[^\"]*", template)) == {"http://www.w3.org/2000/svg"}


# The tree of a beam search


@pytest.mark.parametrize("beam", [1, 3])
def test_the_tree_of_a_search_is_its_trace(beam: int, reader: Callable[[str], Reader]) -> None:
    one = reader("transformer")
    one = replace(one, settings=one.settings.model_copy(update={"beam": beam}))
    reading = one.read("ant bee cat")
    tree = search_tree(one, reading.source_ids)
    assert list(tree.finished[0].tokens) == reading.target_ids
    alive: set[tuple[int, ...]] = {()}
    for step in tree.steps:
        assert {node.tokens[:-1] for node in step} <= alive
        log_probs = [node.log_prob for node in step]
        assert log_probs == sorted(log_probs, reverse=True)
        alive = {node.tokens for node in step if node.fate == "live"}
        assert len(alive) <= beam
    assert not alive  # the search is over
    for hypothesis in tree.finished:
        symbols = hypothesis.tokens
        (score,) = (
            node.log_prob / max(1, len(symbols)) ** tree.alpha
            for step in tree.steps
            for node in step
            if node.fate == "ended" and node.tokens in (symbols, (*symbols, EOS))
        )
        assert score == pytest.approx(hypothesis.score, abs=1e-5)


def test_greedy_search_keeps_the_argmax(reader: Callable[[str], Reader]) -> None:
    one = reader("transformer")
    greedy = replace(one, settings=one.settings.model_copy(update={"beam": 1}))
    for step in search_tree(greedy, greedy.read("ant bee cat").source_ids).steps:
        assert step[0].fate in ("live", "ended")
        assert all(node.fate == "dropped" for node in step[1:])


def test_a_large_beam_is_cut_to_the_best_nodes_and_the_winner(
    reader: Callable[[str], Reader],
) -> None:
    one = reader("transformer")
    wide = replace(one, settings=one.settings.model_copy(update={"beam": 30, "max_length": 6}))
    tree = search_tree(wide, wide.read("ant bee cat").source_ids)
    described = describe_search(tree, wide.tokenizer)
    for step in described["steps"]:
        assert len(step) <= 11
        assert sum(node["wins"] for node in step) <= 1
    winners = [each for step in described["steps"] for each in step if each["wins"]]
    assert len(winners) >= min(6, len(tree.finished[0].tokens))


# Attention from Python


def test_attention_from_python_is_that_of_the_page(run: str) -> None:
    translator = load(run, "cpu")
    maps = translator.attention("ant bee cat")
    assert list(maps) == ["encoder", "decoder", "cross"]
    attend(run, "ant bee cat", PAGE)
    kinds = data_of(PAGE.read_text(encoding="utf-8"))["kinds"]
    for of_kind, described in zip(maps.values(), kinds, strict=True):
        assert of_kind.weights.shape == (1, 2, len(of_kind.queries), len(of_kind.keys))
        assert (of_kind.queries, of_kind.keys) == (described["queries"], described["keys"])
        torch.testing.assert_close(of_kind.weights, torch.tensor(described["weights"]),
                                   atol=0.00051, rtol=0)  # fmt: skip
    given = translator.attention("ant bee cat", "CAT BEE")
    assert given["cross"].queries == ["CAT", "BEE", "</s>"]
    subwords = translator.attention("ibis", subwords=True)["encoder"]
    assert subwords.queries[0].startswith("▁")
    translator.close()


def test_an_ensemble_has_no_attention(run: str) -> None:
    with pytest.raises(UserError, match=r"^attention needs one model"):
        load([run, run], "cpu").attention("ant bee cat")
