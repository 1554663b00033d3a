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
    from mtkit.config.model import ModelSettings
    from mtkit.config.settings import Config

Section = Settings | Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """A setting or an input that has changed since an artifact was made."""

    key: Key
    before: Any
    """The value in the manifest of the artifact; for an input, its hash. None if it has none."""
    now: Any
    is_input: bool = False

    def describe(self) -> str:
        """Return the change in words."""
        if self.is_input:  # hashes tell a reader nothing
            return f"{dotted(self.key)} changed"
        return f"{dotted(self.key)} was {self.before}, now {self.now}"


@dataclass(frozen=True)
class Recipe:
    """Sections of a config, without settings whose scope is ignored."""

    sections: Mapping[str, Any]
    ignored: frozenset[Scope] = frozenset({Scope.EXECUTION})

    def resolved(self) -> dict[str, Any]:
        """Return every setting with its value, as plain data."""
        return {name: self._plain(value) for name, value in self.sections.items()}

    def difference(self, recorded: Mapping[str, Any]) -> Change | None:
        """Return the first setting that differs from a manifest; None if no setting differs.

        A setting that the manifest does not have, because it is newer, counts as its default.
        """
        changes = list(self._changes((), self.sections, recorded))
        for change in changes:
            if change.key[-1] == "kind":  # explains the other changes of its section
                return change
        return changes[0] if changes else None

    def _changes(self, key: Key, now: Any, before: Any) -> Iterator[Change]:
        """Yield the changes of a setting, or of all settings of a section."""
        if not (isinstance(now, Settings | Mapping) and isinstance(before, Mapping)):
            change = Change(key, before=self._plain(before), now=self._plain(now))
            if change.now != change.before:
                yield change
            return
        settings = self._dependencies(now)
        for name, value in settings.items():
            recorded = before[name] if name in before else _default(now, name)
            yield from self._changes((*key, name), value, recorded)
        for name, recorded in before.items():
            # A setting that no longer exists changes nothing if it was off.
            if name not in settings and recorded:
                yield Change((*key, name), before=recorded, now=None)

    def _dependencies(self, section: Section) -> dict[str, Any]:
        """Return the settings of a section that results depend on, with their values."""
        if isinstance(section, Mapping):
            return dict(section)
        fields = type(section).model_fields
        settings: dict[str, Any] = {}
        for name, value in section:
            scopes = fields[name].metadata  # pydantic keeps the `Scope` of a type there
            if self.ignored.isdisjoint(scopes):
                settings[name] = value
        return settings

    def _plain(self, value: Any) -> Any:
        """Return a value as plain data, without the settings whose scope is ignored."""
        if isinstance(value, tuple):
            return list(value)  # as JSON has it
        if not isinstance(value, Settings | Mapping):
            return value
        return {name: self._plain(inner) for name, inner in self._dependencies(value).items()}


def _default(section: Section, name: str) -> Any:
    """Return the default of a setting; None in a mapping, which has no defaults."""
    if isinstance(section, Mapping):
        return None
    return type(section).model_fields[name].get_default()


def tokenizer_recipe(config: Config) -> Recipe:
    """Return the settings that a tokenizer depends on, besides its corpus or original model."""
    if config.training.init_from is not None:
        sections: dict[str, Any] = {"training.init_from": "a model"}
        settings = config.tokenizer
        if settings.changes_vocabulary:  # otherwise the tokenizer is that of the model
            sections["seed"] = config.seed
            sections["tokenizer.drop_unused"] = settings.drop_unused or None  # off: as before
            for name in ("new_pieces", "sample_lines", "split_digits"):
                sections[f"tokenizer.{name}"] = getattr(settings, name)
        return Recipe(sections)
    return Recipe({"training.init_from": None, "seed": config.seed, "tokenizer": config.tokenizer})


def batches_recipe(config: Config) -> Recipe:
    """Return the settings that batches depend on, besides the text and the tokenizer."""
    weights = [corpus.weight for corpus in config.data.corpora("train").values()]
    sections: dict[str, Any] = {
        "batching": config.batching,
        "data": {"train": {"weight": weights}},
    }
    if config.decoding.source_tag is not None:
        sections["decoding.source_tag"] = config.decoding.source_tag
    return Recipe(sections, ignored=frozenset({Scope.EXECUTION, Scope.TRAINING}))


def meaning_recipe(model: ModelSettings) -> Recipe:
    """Return the settings on which the meaning of a model's weights depends; dropout is not one."""
    return Recipe({"model": model}, ignored=frozenset({Scope.EXECUTION, Scope.TRAINING}))


def difference_in_meaning(now: ModelSettings, before: ModelSettings) -> Change | None:
    """Return the first setting that gives the same weights another meaning; None if none does."""
    pair = meaning_recipe(before.as_pair())
    change = meaning_recipe(now.as_pair()).difference(pair.resolved())
    if change is None or now.kind != before.kind:
        return change
    return meaning_recipe(now).difference(meaning_recipe(before).resolved())  # as the user wrote it


def model_recipe(config: Config, ended: int | None = None) -> Recipe:
    """Return the settings that a model depends on; `ended`: the step at which `finish` ended it."""
    sections = dict(checkpoint_recipe(config).sections)
    sections["decoding"] = config.decoding
    sections["ended"] = ended
    # A checkpoint ignores the settings of when training ends; a model depends on them, too.
    return Recipe(sections, ignored=frozenset({Scope.EXECUTION}))


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
    return Recipe(sections, ignored=frozenset(ignored))


def scores_recipe(config: Config) -> Recipe:
    """Return the settings that test scores depend on, besides the model and the text."""
    sections = {
        "decoding": config.decoding,
        "data": {"target_language": config.data.target_language},
    }
    return Recipe(sections)
