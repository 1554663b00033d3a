"""`mtkit attend`: sentences in, and where the model looked as it translated them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from shutil import get_terminal_size
from typing import Literal

import torch

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.alignment import merge
from mtkit.decoding.engine import Request, Sentence
from mtkit.decoding.lines import input_lines
from mtkit.decoding.output import open_output
from mtkit.decoding.pytorch import PyTorchEngine
from mtkit.decoding.segment import Line, segment
from mtkit.errors import UserError
from mtkit.models.device import pick_device
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import open_model
from mtkit.models.weights import load_model
from mtkit.report import data, say, styled
from mtkit.study.attend.views import draw, draw_picture, page
from mtkit.study.attend.weights import (
    Aspect,
    HeatMap,
    Kind,
    Segments,
    all_weights,
    as_subwords,
    as_words,
    is_unknown,
)
from mtkit.study.plots.picture import check_picture
from mtkit.symbols import BOS, EOS
from mtkit.tokenizer.codec import Tokenizer

View = Literal["terminal", "png", "svg", "html"]
Segmentation = Callable[[Sequence[str]], Segments]
"""Makes words of subwords, or leaves them."""
Named = tuple[str, str]
"""What an error calls a sentence, and the sentence."""


@dataclass(frozen=True)
class Reading:
    """A sentence and its translation, as subwords and words."""

    translation: str
    source_ids: list[int]
    """Subwords of the sentence, without EOS."""
    target_ids: list[int]
    """Subwords of the translation, without BOS and EOS."""
    source: Segments
    target: Segments


@dataclass(frozen=True)
class Reader:
    """Reads sentences with one model."""

    model: EncoderDecoder
    tokenizer: Tokenizer
    settings: DecodingSettings
    segments: Segmentation

    @classmethod
    def load(cls, path: str | Path | None, device: str, segments: Segmentation) -> Reader:
        """With the model of a run or a model folder; UserError as `open_model`."""
        opened = open_model(path)
        model = load_model(opened.config, opened.weights).to(pick_device(device)).eval()
        return cls(model, opened.tokenizer, opened.config.decoding, segments)

    def is_blank(self, text: str) -> bool:
        """Whether there is nothing for the model to read."""
        return not self._sentences(text)

    def read(self, text: str, target: str | None = None, *, name: str = "TEXT") -> Reading:
        """The model's own translation of `text`, or `target` as if it were.

        It is read as `translate` has it read, truecased and without unknown emoji.
        Raises UserError for what is blank, too long, several parts that are translated one by one,
        or unknown to the tokenizer, calling the text `name`.
        """
        tokenizer, sentences = self.tokenizer, self._sentences(text)
        if len(sentences) > 1:
            raise UserError(
                f"{name}: is translated in {len(sentences)} parts: give it one short sentence"
            )
        source_ids = sentences[0].source[:-1] if sentences else []
        source = tokenizer.source_pieces(source_ids)
        self._check(name, source)
        if target is None:
            with closing(PyTorchEngine(self.model)) as engine:
                ((best,),) = engine.search(sentences, Request(self.settings)).result()
            target_ids = best.tokens
        else:
            target_ids = tokenizer.encode_target([target])[0]
            self._check("--target", tokenizer.target_pieces(target_ids))
        sides = map(self.segments, (source, tokenizer.target_pieces(target_ids)))
        return Reading(tokenizer.decode([target_ids])[0], source_ids, target_ids, *sides)

    def maps(self, reading: Reading) -> dict[Kind, HeatMap]:
        """Where the model looked, by the kind of attention; UserError for a model without any."""
        begin, end = (as_subwords([it]) for it in self.tokenizer.target_pieces([BOS, EOS]))
        source, now, before = reading.source + end, reading.target + end, begin + reading.target
        sides: dict[Kind, tuple[Segments, Segments]] = {
            "cross": (now, source),
            "encoder": (source, source),
            "decoder": (now, before),
        }
        device = self.model.device
        ids = (reading.source_ids, reading.target_ids)
        ended = (torch.tensor([[*side, EOS]], device=device) for side in ids)
        found = all_weights(self.model, *ended)
        if not found:
            raise UserError("the model has no attention (model.attention: none): nothing to see")
        maps: dict[Kind, HeatMap] = {}
        for kind, weights in found.items():
            queries, keys = sides[kind]
            merged = merge(weights.numpy(), queries.of_subword, keys.of_subword)
            maps[kind] = HeatMap(kind, queries.texts, keys.texts, torch.from_numpy(merged))
        return maps

    def _sentences(self, text: str) -> list[Sentence]:
        """Return what `translate` has the model read, part by part."""
        segments = segment(Line(text), self.tokenizer, Request(self.settings))
        return [one for one in segments if isinstance(one, Sentence)]

    def _check(self, name: str, pieces: list[str]) -> None:
        longest = self.settings.max_length
        if not pieces:
            raise UserError(f"{name}: blank: give it a sentence")
        if len(pieces) > longest:
            counted = f"{len(pieces)} subwords, of {longest} at most (decoding.max_length)"
            raise UserError(f"{name}: {counted}: give it one sentence")
        if is_unknown(pieces):
            raise UserError(f"{name}: the tokenizer knows none of its letters: wrong language?")


def attend(
    model: str | None = None,
    text: str | None = None,
    output: Path | None = None,
    *,
    target: str | None = None,
    view: View = "terminal",
    aspect: Aspect | None = None,
    subwords: bool = False,
    device: str = "auto",
) -> None:
    """Shows the attention of the translation of `text`, or of each line of standard input.

    `target` is taken for the translation instead of the model's own. The terminal's view goes to
    stdout, as many as there are lines, and an empty line for a blank one; a picture or page is of
    one sentence and goes into `output` (default: `attention.VIEW`), and the translation to stdout.
    Raises UserError as `Reader.read`, and for options that do not go together, before any work.
    """
    aspect = aspect or Aspect()
    path = _place(view, output, aspect)
    reader = Reader.load(model, device, as_subwords if subwords else as_words)
    sentences: Iterable[Named] = sentences_of(text)
    if path is not None or target is not None:
        sentences = _only(named for named in sentences if not reader.is_blank(named[1]))
    for name, sentence in sentences:
        if text is None and reader.is_blank(sentence):
            data("\n")
            continue
        reading = reader.read(sentence, target and _utf8(target), name=name)
        maps = reader.maps(reading)
        if path is None:
            mean = replace(aspect, average=True).of(maps)
            data(styled(draw(reading.translation, mean, get_terminal_size().columns)))
            continue
        if view == "html":
            with open_output(path) as (file, _):
                file.write(page(sentence, reading.translation, maps).encode())
        else:
            draw_picture(aspect.of(maps), path)
        say(f"{path}: written")
        data(f"{reading.translation}\n")


def _place(view: View, output: Path | None, aspect: Aspect) -> Path | None:
    """The file to write, or None for the terminal."""
    is_picture, path = view in ("png", "svg"), output or Path(f"attention.{view}")
    if aspect.average and not is_picture:
        raise UserError("--average: only with --view png or svg")
    if view == "terminal" and output is not None:
        raise UserError(f"--output {output}: only with --view png, svg or html")
    if view == "html" and aspect != Aspect():
        raise UserError("--kind, --layer, --head: not with --view html: the page has every one")
    if is_picture:
        check_picture(path)
        if path.suffix.lower() != f".{view}":
            raise UserError(f"{path}: not a name for --view {view}: name a .{view}")
    return None if view == "terminal" else path


def sentences_of(text: str | None) -> Iterator[Named]:
    """What is to be translated: `text`, or the lines of standard input; UserError for no line."""
    if text is not None:
        yield "TEXT", _utf8(text)
        return
    number = 0
    for number, line in enumerate(input_lines(None), start=1):
        yield f"input line {number}", line
    if not number:
        raise UserError("stdin: no text: give it a sentence")


def _only(sentences: Iterable[Named]) -> list[Named]:
    """The same, if it is one."""
    found = list(islice(sentences, 2))
    if not found:
        raise UserError("blank: give it a sentence")
    if len(found) > 1:
        raise UserError("stdin: more than one line: a file or a --target is for one sentence")
    return found


def _utf8(argument: str) -> str:
    """What the command line gave, its bytes that are no UTF-8 replaced."""
    return os.fsencode(argument).decode(errors="replace")
