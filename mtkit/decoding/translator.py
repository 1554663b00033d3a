"""A model, its tokenizer and a request: lines of text in, as many lines of text out, in order.

What comes out for a line depends on that line, not on the lines around it. A line of white space
becomes an empty line without any model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.ahead import Ahead
from mtkit.decoding.contract import Engine, EngineOptions, Pending, Request
from mtkit.decoding.engines.load import load_engine
from mtkit.decoding.model import OpenedModel, open_model
from mtkit.decoding.parts import Parts, Translation, Window
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer

Begun = deque[tuple[Window, Pending]]
"""Windows whose translations are being made."""


@dataclass
class Translator:
    """Translates lines as they are requested; any number of translators may share an engine."""

    engine: Engine
    tokenizer: Tokenizer
    request: Request
    identity: str = ""
    """The identity of the model, where it has one."""

    @classmethod
    def of(cls, opened: OpenedModel, request: Request, options: EngineOptions) -> Translator:
        """With an engine for the request; UserError as `load_engine`."""
        engine = load_engine(opened, options, request)
        return cls(engine, opened.tokenizer, request, opened.artifact.identity)

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        device: str = "auto",
        *,
        engine: str = "auto",
        compute_type: str = "auto",
        workers: int | None = None,
        threads: int | None = None,
        **changes: int | float | None,
    ) -> Translator:
        """The model of a run or a model folder; `changes` replace its own decoding settings.

        Without a path: $MTKIT_MODEL, else the last run of this directory. The other options are
        those of `EngineOptions`. Raises UserError where there is no model, or a damaged one, for
        settings that cannot be, and for an engine that cannot honour them.
        """
        opened = open_model(path, changes)
        options = EngineOptions(engine, compute_type, device, workers, threads)
        return cls.of(opened, Request(opened.config.decoding), options)

    @property
    def settings(self) -> DecodingSettings:
        return self.request.settings

    def translate(self, lines: Sequence[str], prefixes: Iterable[str] | None = None) -> list[str]:
        """The best translation of each line; `prefixes` as for `stream`."""
        found = self.stream([lines], prefixes=prefixes)
        return [translation.text for window in found for translation in window]

    def stream(
        self,
        windows: Iterable[Sequence[str]],
        *,
        prefixes: Iterable[str] | None = None,
        first: int = 0,
    ) -> Iterator[list[Translation]]:
        """For each window of lines its translations; while they are made, one more is read.

        `prefixes` say for each line how its translation begins, or nothing. `first` is the number
        of the first line, from 0, which samples depend on. Raises UserError where the engine
        cannot do what is requested, and where there are fewer or more prefixes than lines.
        """
        given = None if prefixes is None else iter(prefixes)
        begun: Begun = deque()
        with closing(Ahead(windows)) as coming, _cancelling(begun):
            for lines in coming:
                window = self._parts.split(lines, _next_of(given, len(lines)), first)
                begun.append((window, self.engine.submit(window.sentences, self.request)))
                first += len(lines)
                if len(begun) > 1:
                    yield self._first_of(begun)
                while begun and not coming.is_soon():  # nobody waits for lines that may never come
                    yield self._first_of(begun)
            while begun:
                yield self._first_of(begun)
        if given is not None and next(given, None) is not None:
            raise UserError(f"prefixes: more than {first}, the number of lines: one for each line")

    @property
    def _parts(self) -> Parts:
        return Parts(self.tokenizer, self.request)

    def _first_of(self, begun: Begun) -> list[Translation]:
        """The translations of the first window, which is done with then."""
        window, pending = begun[0]
        found = pending.wait()
        begun.popleft()
        return self._parts.join(window, found)


load = Translator.load


def _next_of(prefixes: Iterator[str] | None, count: int) -> list[str]:
    if prefixes is None:
        return [""] * count
    found = list(islice(prefixes, count))
    if len(found) < count:
        raise UserError("prefixes: fewer than lines: one for each line, blank for no beginning")
    return found


@contextmanager
def _cancelling(begun: Begun) -> Iterator[None]:
    """Whatever ends the block, of what is left in `begun` no more is begun."""
    try:
        yield
    finally:
        for _, pending in begun:
            pending.cancel()
