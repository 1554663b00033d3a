"""The settings that an artifact depends on, and no others.

A recipe is nested as a config is. A manifest stores it resolved, with every default, so that a
default that changes later is noticed. The identities of the inputs stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mtkit.config.base import Scope, Settings, flattened

if TYPE_CHECKING:  # translation reads no settings of training
    from mtkit.config.settings import Config

Section = Settings | Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """Sections of a config, without the settings of the ignored scopes."""

    sections: Mapping[str, Any]
    ignored: frozenset[Scope] = frozenset({Scope.EXECUTION})

    def resolved(self) -> dict[str, Any]:
        """Return every setting with its value, as plain data."""
        return {name: self._plain(value) for name, value in self.sections.items()}

    def by_name(self) -> dict[str, Any]:
        """Return the value of each setting by its name in a config, such as "model.heads"."""
        return flattened(self.resolved())

    def matches(self, recorded: Mapping[str, Any]) -> bool:
        """Return whether a manifest recorded these; a later setting matches at its default."""
        return self._matches(self.sections, recorded)

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

    def _matches(self, now: Any, recorded: Any) -> bool:
        if not (isinstance(now, Settings | Mapping) and isinstance(recorded, Mapping)):
            return bool(recorded == now)
        counted = self._counted(now)
        return recorded.keys() <= counted.keys() and all(
            self._matches(value, recorded[name])
            if name in recorded
            else value == _default_of(now, name)
            for name, value in counted.items()
        )


def _default_of(section: Section, name: str) -> Any:
    return None if isinstance(section, Mapping) else type(section).model_fields[name].get_default()


def tokenizer_recipe(config: Config) -> Recipe:
    """Return what a tokenizer depends on besides the corpus."""
    return Recipe({"seed": config.seed, "tokenizer": config.tokenizer})


def batches_recipe(config: Config) -> Recipe:
    """Return what encoded corpora depend on besides the text and the tokenizer."""
    weights = [corpus.weight for corpus in config.data.corpora("train").values()]
    sections = {"batching": config.batching, "data": {"train": {"weight": weights}}}
    return Recipe(sections, frozenset({Scope.EXECUTION, Scope.TRAINING}))


def model_recipe(config: Config, ended: int | None = None) -> Recipe:
    """Return what a model depends on besides its inputs; `ended`: the step of `mtkit finish`."""
    decoding = {"decoding": config.decoding, "ended": ended}
    return Recipe({**checkpoint_recipe(config).sections, **decoding})


def checkpoint_recipe(config: Config) -> Recipe:
    """Return what a resumed run must have in common with its checkpoint.

    A run may be resumed with another length, unless its learning rate depends on that, and may
    end and decode differently.
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
    """Return what the scores of the test set depend on besides the model and the text."""
    language = config.data.target_language
    return Recipe({"decoding": config.decoding, "data": {"target_language": language}})
