"""`mtkit attend`: sentences in, and the attention weights of their translations out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import get_terminal_size
from typing import Literal

import torch

from mtkit.config.decoding import DecodingSettings
from mtkit.corpus.text import normalise
from mtkit.decoding.alignment import merge
from mtkit.decoding.engine import Request, Sentence
from mtkit.decoding.forced import check_attention
from mtkit.decoding.lines import input_lines
from mtkit.decoding.output import open_output
from mtkit.decoding.pytorch import PyTorchEngine
from mtkit.decoding.segment import Line, segment
from mtkit.errors import UserError
from mtkit.models.device import pick_device
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import open_model
from mtkit.models.weights import load_model
from mtkit.report import data, plural, say, styled
from mtkit.study.attend import maps
from mtkit.study.attend.maps import AttentionKind, HeatMap, Label, MapSelection, word_numbers
from mtkit.study.picture import check_picture
from mtkit.symbols import BOS, EOS
from mtkit.tokenizer.codec import Tokenizer


def attend(
    model: str | None = None,
    text: str | None = None,
    output: Path | None = None,
    *,
    target: str | None = None,
    view: Literal["terminal", "png", "svg", "html"] = "terminal",
    selection: MapSelection | None = None,
    subwords: bool = False,
    device: str = "auto",
) -> None:
    """Show the attention weights of the translation of `text`, or of each line of stdin.

    `target` replaces the model's own translation; blank lines are left out. A picture or page shows
    one sentence: it is written to `output` (default: attention.VIEW). The rest goes to stdout.

    Raises:
        UserError: see `Reader.read`, `MapSelection.select` and `check_picture`.
    """
    selection = selection or MapSelection()
    path = None if view == "terminal" else output or Path(f"attention.{view}")
    if path is not None and view != "html":
        check_picture(path, [f".{view}"])
    reader = Reader.load(model, device, subwords=subwords)
    sentences = named_sentences(text)
    if text is None:
        sentences = (named for named in sentences if named[1].strip())
    if path is not None or target is not None:
        sentences = _only(list(sentences))
    for name, sentence in sentences:
        reading = reader.read(sentence, target and replace_invalid(target), name=name)
        shown = reader.heat_maps(reading)
        if path is None:
            mean = replace(selection, average=True).select(shown)
            data(styled(maps.draw_terminal(reading.translation, mean, get_terminal_size().columns)))
            continue
        if view == "html":
            with open_output(path) as (file, _):
                file.write(maps.make_page(sentence, reading.translation, shown).encode())
            say(f"wrote {path}")
        else:
            maps.draw_picture(reading.translation, selection.select(shown), path)
        data(f"{reading.translation}\n")


def _only(sentences: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    if len(sentences) != 1:
        raise UserError(
            f"{plural(len(sentences), 'sentence')} given; a file or a target needs exactly one"
        )
    return iter(sentences)


@dataclass(frozen=True)
class Reading:
    """A sentence and its translation, as subwords (without BOS and EOS) and words."""

    translation: str
    source_ids: list[int]
    target_ids: list[int]
    source: list[Label]
    target: list[Label]


@dataclass(frozen=True)
class Reader:
    """Reads sentences with one model."""

    model: EncoderDecoder
    tokenizer: Tokenizer
    settings: DecodingSettings
    label: Callable[[Sequence[str]], list[Label]] = maps.label_words

    @classmethod
    def load(cls, path: str | Path | None, device: str, *, subwords: bool = False) -> Reader:
        """Load the model of a run or a model folder; see `open_model`."""
        opened = open_model(path)
        model = load_model(opened.config, opened.weights).to(pick_device(device)).eval()
        label = maps.label_subwords if subwords else maps.label_words
        return cls(model, opened.tokenizer, opened.config.decoding, label)

    def read(self, text: str, target: str | None = None, *, name: str = "text") -> Reading:
        """Return the sentence with the model's own translation, or with `target` instead.

        Raises:
            UserError: the text, which the error calls `name`, or the target is blank or too long,
                or the text is several sentences.
        """
        tokenizer, request = self.tokenizer, Request(self.settings)
        segments = segment(Line(text), tokenizer, request)
        sentences = [each for each in segments if isinstance(each, Sentence)]
        if len(sentences) > 1:
            raise UserError(
                f"{name} is translated in {len(sentences)} parts; give one short sentence"
            )
        source_ids = sentences[0].source[:-1] if sentences else []
        if not source_ids:
            raise UserError(f"{name} is blank; give a sentence")
        if target is None:
            with closing(PyTorchEngine(self.model)) as engine:
                ((best,),) = engine.search(sentences, request).result()
            target_ids = best.tokens
        else:
            target_ids = tokenizer.encode_target([normalise(target)])[0]
            if not 0 < len(target_ids) <= self.settings.max_length:
                longest = self.settings.max_length
                raise UserError(
                    f"target: it has {plural(len(target_ids), 'subword')}; give 1 to {longest}"
                )
        source, written = tokenizer.source_pieces(source_ids), tokenizer.target_pieces(target_ids)
        translation = tokenizer.decode([target_ids])[0]
        labels = (self.label(source), self.label(written))
        return Reading(translation, source_ids, target_ids, *labels)

    def heat_maps(self, reading: Reading) -> dict[AttentionKind, HeatMap]:
        """Return the attention weights by kind; UserError if the model has none."""
        check_attention(self.model)
        begin, end = (maps.label_subwords([it]) for it in self.tokenizer.target_pieces([BOS, EOS]))
        source, target, before = reading.source + end, reading.target + end, begin + reading.target
        axes: dict[AttentionKind, tuple[list[Label], list[Label]]]
        axes = {"cross": (target, source), "encoder": (source, source), "decoder": (target, before)}
        ids = (reading.source_ids, reading.target_ids)
        ended = (torch.tensor([[*side, EOS]], device=self.model.device) for side in ids)
        shown: dict[AttentionKind, HeatMap] = {}
        for kind, weights in maps.attention_weights(self.model, *ended).items():
            queries, keys = axes[kind]
            merged = merge(weights.numpy(), word_numbers(queries), word_numbers(keys))
            rows, columns = ([text for text, _ in labels] for labels in axes[kind])
            shown[kind] = HeatMap(kind, rows, columns, torch.from_numpy(merged))
        return shown


def named_sentences(text: str | None) -> Iterator[tuple[str, str]]:
    """Yield `text`, or the lines of stdin, which may not be empty, after what errors call them."""
    if text is not None:
        yield "text", replace_invalid(text)
        return
    number = 0
    for number, line in enumerate(input_lines(None), start=1):
        yield f"input line {number}", line
    if not number:
        raise UserError("stdin is empty; give a sentence")


def replace_invalid(argument: str) -> str:
    """Return a command-line argument with invalid UTF-8 replaced."""
    return os.fsencode(argument).decode(errors="replace")
