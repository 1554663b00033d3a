"""Recipes: exactly the settings that an artifact depends on.

A recipe has the same nested sections as a config. A manifest stores it with all default values, so
that a later change of a default is noticed. The identities of the inputs are stored separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mtkit.config.base import Key, Scope, Settings, dotted

if TYPE_CHECKING:  # translation reads no settings of training
    from mtkit.config.settings import Config

Section = Settings | Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """Sections of a config, without settings whose scope is ignored."""

    sections: Mapping[str, Any]
    ignored: frozenset[Scope] = frozenset({Scope.EXECUTION})

    def resolved(self) -> dict[str, Any]:
        """Return every setting with its value, as plain data."""
        return {name: self._plain(value) for name, value in self.sections.items()}

    def difference(self, recorded: Mapping[str, Any]) -> str | None:
        """Describe the first setting that differs from a manifest; None if no setting differs.

        A setting that the manifest does not have, because it is newer, counts as its default.
        """
        changes = [*self._changes((), self.sections, recorded)]
        changes.sort(key=lambda change: change[0][-1] != "kind")  # the kind explains the rest
        return next((f"{dotted(it)} was {then}, now {now}" for it, then, now in changes), None)

    def _changes(self, key: Key, now: Any, then: Any) -> Iterator[tuple[Key, Any, Any]]:
        """Yield each setting that differs, with its recorded value and its value now."""
        if not (isinstance(now, Settings | Mapping) and isinstance(then, Mapping)):
            if now != then:
                yield key, self._plain(then), self._plain(now)
            return
        counted = self._counted(now)
        fields = {} if isinstance(now, Mapping) else type(now).model_fields
        for name, value in counted.items():
            default = fields[name].get_default() if name in fields else None
            yield from self._changes((*key, name), value, then.get(name, default))
        yield from (((*key, name), then[name], None) for name in then if name not in counted)

    def _counted(self, section: Section) -> dict[str, Any]:
        """Return the settings of a section that results depend on."""
        if isinstance(section, Mapping):
            return dict(section)
        fields = type(section).model_fields
        return {k: v for k, v in section if self.ignored.isdisjoint(fields[k].metadata)}

    def _plain(self, value: Any) -> Any:
        if not isinstance(value, Settings | Mapping):
            return value
        return {name: self._plain(inner) for name, inner in self._counted(value).items()}


def tokenizer_recipe(config: Config) -> Recipe:
    """Return the settings that a tokenizer depends on, besides its corpus or original model."""
    if config.training.init_from is not None:
        return Recipe({"training.init_from": "a model"})
    own = {"seed": config.seed, "tokenizer": config.tokenizer}
    return Recipe({"training.init_from": None} | own)


def batches_recipe(config: Config) -> Recipe:
    """Return the settings that batches depend on, besides the text and the tokenizer."""
    weights = [corpus.weight for corpus in config.data.corpora("train").values()]
    sections = {"batching": config.batching, "data": {"train": {"weight": weights}}}
    return Recipe(sections, frozenset({Scope.EXECUTION, Scope.TRAINING}))


def model_recipe(config: Config, ended: int | None = None) -> Recipe:
    """Return the settings that a model depends on; `ended`: the step at which `finish` ended it."""
    decoding = {"decoding": config.decoding, "ended": ended}
    return Recipe({**checkpoint_recipe(config).sections, **decoding})


def checkpoint_recipe(config: Config) -> Recipe:
    """Return the settings that must not change when a run resumes from its checkpoint.

    The length may change, unless the learning rate depends on it. When the run ends early, and how
    it decodes, may change, too.
    """
    ignored = {Scope.EXECUTION, Scope.ENDING}
    if not config.training.schedule.depends_on_length:
        ignored.add(Scope.LENGTH)
    sections = {
        "seed": config.seed,
        "batching": {"max_tokens": config.batching.max_tokens},
        "model": config.model,
        "training": config.training,
    }
    return Recipe(sections, frozenset(ignored))


def scores_recipe(config: Config) -> Recipe:
    """Return the settings that test scores depend on, besides the model and the text."""
    language = config.data.target_language
    return Recipe({"decoding": config.decoding, "data": {"target_language": language}})
