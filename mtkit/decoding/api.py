"""A model, its tokenizer and a request: lines of text in, as many lines of text out, in order.

What comes out for a line depends on that line, not on the lines around it. A line of white space
becomes an empty line without any model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice, repeat

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.distinct import submit
from mtkit.decoding.engine import Engine, EngineOptions, Pending, Request
from mtkit.decoding.lines import in_windows
from mtkit.decoding.load import load_engine
from mtkit.decoding.segment import Translation, Window
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel, Place, open_models
from mtkit.prefetch import Ahead
from mtkit.progress import progress
from mtkit.tokenizer.codec import Tokenizer


@dataclass
class Translator:
    """Translates lines as they are requested; any number of translators may share an engine."""

    engine: Engine
    tokenizer: Tokenizer
    request: Request
    identity: str = ""
    """The identity of the model, where it has one; of several those of all, in order."""

    @classmethod
    def of(
        cls, models: Sequence[OpenedModel], request: Request, options: EngineOptions
    ) -> Translator:
        """With an engine for the request; UserError as `load_engine`."""
        engine = load_engine(models, options, request)
        identities = " ".join(it.artifact.identity for it in models)
        return cls(engine, models[0].tokenizer, request, identities)

    @classmethod
    def load(
        cls,
        path: Place | Sequence[Place] | None = None,
        device: str = "auto",
        *,
        engine: str = "auto",
        compute_type: str = "auto",
        workers: int | None = None,
        threads: int | None = None,
        scores: bool = True,
        **changes: int | float | None,
    ) -> Translator:
        """The model of a run or a model folder; `changes` replace its own decoding settings.

        Without a path: $MTKIT_MODEL, else the last run of this directory. With several, an ensemble
        that decodes by the settings of the first. The other options are those of `EngineOptions`,
        and `scores` of `Request`.
        Raises UserError where there is no model, or a damaged one, for models that are no ensemble,
        for settings that cannot be, and for an engine that cannot honour them.
        """
        models = open_models([path] if path is None or isinstance(path, Place) else path, changes)
        options = EngineOptions(engine, compute_type, device, workers, threads)
        return cls.of(models, Request(models[0].config.decoding, scores=scores), options)

    @property
    def settings(self) -> DecodingSettings:
        return self.request.settings

    def translate(self, lines: Sequence[str], prefixes: Iterable[str] | None = None) -> list[str]:
        """The best translation of each line; `prefixes` as for `stream`.

        Raises TypeError for a string in the place of a list, and as `stream`.
        """
        for name, given in (("lines", lines), ("prefixes", prefixes)):
            if isinstance(given, str):  # whose characters would be its items
                raise TypeError(f"translate: a list of {name} is expected, not a string")
        found = self.stream(
            [list(map(_spelt, lines))], prefixes=None if prefixes is None else map(_spelt, prefixes)
        )
        return [translation.text for window in found for translation in window]

    def translate_all(self, lines: Sequence[str], description: str) -> list[Translation]:
        """Every line, with progress on stderr, which calls it by the description."""
        found: list[Translation] = []
        with progress(description, len(lines), "lines") as shown:
            for window in self.stream(in_windows(lines, 256)):  # small ones: progress comes often
                shown.advance(len(window))
                found += window
        return found

    def stream(
        self,
        windows: Iterable[Sequence[str]],
        *,
        prefixes: Iterable[str] | None = None,
        first: int = 0,
        name: str = "prefixes",
    ) -> Iterator[list[Translation]]:
        """For each window of lines its translations; while they are made, one more is read.

        `prefixes` say for each line how its translation begins, or nothing. `first` is the number
        of the first line, from 0, which samples depend on. Raises UserError where the engine
        cannot do what is requested, and, calling them `name`, where there are fewer or more
        prefixes than lines.
        """
        given = repeat("") if prefixes is None else iter(prefixes)
        submitted: deque[tuple[Window, Pending]] = deque()
        try:
            with closing(Ahead(windows)) as coming:
                for lines in coming:
                    begins = list(islice(given, len(lines)))
                    if len(begins) < len(lines):
                        raise UserError(
                            f"{name}: fewer than lines: one for each line, blank for no beginning"
                        )
                    window = Window(self.tokenizer, self.request, lines, begins, first)
                    pending = submit(self.engine, self.tokenizer, window.sentences, self.request)
                    submitted.append((window, pending))
                    del window, pending  # the queue alone holds them, until they are done
                    first += len(lines)
                    # One more window is read, but nobody waits for lines that may never come.
                    while len(submitted) > 1 or (submitted and not coming.is_soon()):
                        yield _finish_first(submitted)
            while submitted:
                yield _finish_first(submitted)
        finally:  # whatever it was that ended it: no more is begun
            for _, pending in submitted:
                pending.cancel()
        if prefixes is not None and next(given, None) is not None:
            raise UserError(f"{name}: more than {first}, the number of lines: one for each line")


def _spelt(line: str) -> str:
    """Half of a surrogate pair, which Python's text can hold, and no UTF-8, as a question mark."""
    return line.encode(errors="replace").decode()


def _finish_first(submitted: deque[tuple[Window, Pending]]) -> list[Translation]:
    """What became of the first window, which stays among them if it fails."""
    window, pending = submitted[0]
    translations = window.join(pending.wait())
    submitted.popleft()
    return translations


load = Translator.load
