"""What models are to write for `data.train`: each an artifact of its own in RUN/written.

Its folder is named for what the config says of it, wherever it stands among others. Whether it is
up to date depends on the text and on the models themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.artifacts.explain import altered, told
from mtkit.artifacts.manifest import COMMANDS, Artifact, open_artifact, sha256_of
from mtkit.artifacts.recipe import WrittenRecipe
from mtkit.artifacts.runs import find_best, find_current, refuse_own
from mtkit.config.base import Key
from mtkit.config.corpora import Corpus, WrittenCorpus, WrittenText
from mtkit.config.settings import Config
from mtkit.corpus.files import existing, listed_paths, measured
from mtkit.corpus.read import files_of
from mtkit.corpus.validate import look
from mtkit.errors import SettingError, UserError, led_to
from mtkit.report import quietly

WRITTEN = "written"
SOURCE, TARGET = "source.txt", "target.txt"


@dataclass(frozen=True)
class Commission:
    """A written corpus of a config, and what it is to be made from."""

    corpus: WrittenCorpus
    key: Key
    path: Path
    recipe: WrittenRecipe
    inputs: dict[str, str]
    made_from: dict[str, Any]

    @classmethod
    def of(cls, config: Config, corpus: WrittenCorpus, key: Key) -> Commission:
        """Raises SettingError where the text or a model cannot be read."""
        look(corpus, key)
        recipe = WrittenRecipe.of(config, corpus)
        inputs, made_from = {}, told(recipe, "data.train")
        for side in corpus.sides:
            paths = listed_paths(getattr(corpus, side))
            found = {f"data.train: {path}": measured(existing(path)) for path in paths}
            inputs[str(side)] = sha256_of([facts["sha256"] for facts in found.values()])
            made_from |= found
        with led_to((*key, "model")):
            models = {place: _writer(place, config) for place in listed_paths(corpus.model)}
        inputs["models"] = " ".join(models[place] for place in listed_paths(corpus.model))
        made_from |= {f"data.train: {name}": {"model": model} for name, model in models.items()}
        return cls(corpus, key, place_of(config, corpus), recipe, inputs, made_from)

    def current(self) -> Artifact | None:
        """What is written, if it is up to date and undamaged."""
        return find_current(self.path, "corpus", self.recipe, self.inputs)


def place_of(config: Config, corpus: WrittenCorpus) -> Path:
    """Where it is written; neither its weight nor its tag says anything of that."""
    said = corpus.model_copy(update={"weight": 1.0, "tag": None}).without_defaults()
    return Path(config.run) / WRITTEN / sha256_of(said)[:12]


def commissions(config: Config) -> Iterator[Commission]:
    """All of the config, in order; SettingError as `Commission.of`."""
    for key, corpus in config.data.corpora("train").items():
        if isinstance(corpus, WrittenCorpus):
            yield Commission.of(config, corpus, key)


def altered_texts(config: Config) -> dict[Path, str | None]:
    """What has changed of the text that models wrote from, by what they wrote, if it is there."""
    found = {}
    for corpus in config.data.corpora("train").values():
        if isinstance(corpus, WrittenCorpus):
            path = place_of(config, corpus)
            with suppress(UserError):
                artifact = open_artifact(path, "corpus")
                found[path] = altered(artifact, files_of(corpus.as_given(), "data.train"))
    return found


def texts_of(config: Config) -> list[Corpus]:
    """The corpora of `data.train`, in the place of written ones their texts, there or not."""
    return [
        _text(config, corpus) if isinstance(corpus, WrittenCorpus) else corpus
        for corpus in config.data.corpora("train").values()
    ]


def training_texts(config: Config) -> list[Corpus]:
    """As `texts_of`; SettingError for one that is not there as the config asks for it."""
    for commission in commissions(config):
        if commission.current() is None:
            raise SettingError(
                commission.key,
                f"not written yet, or from something else: make it with `{COMMANDS['corpus']}`",
            )
    return texts_of(config)


def _writer(place: str, config: Config) -> str:
    """The identity of a model; UserError for none, and for one that would learn from itself."""
    refuse_own(place, config.run)
    with quietly():  # that it may not be finished is said when it writes
        return find_best(place).identity


def _text(config: Config, corpus: WrittenCorpus) -> WrittenText:
    source, target = (str(place_of(config, corpus) / name) for name in (SOURCE, TARGET))
    return WrittenText(source=source, target=target, weight=corpus.weight, tag=corpus.tag)
