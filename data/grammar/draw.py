"""Drawing of meanings: a template of `sentences.yaml`, and what stands in its slots."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import yaml

from grammar.conjugation import Level
from grammar.lexicon import NOUNS, PREDICATES, named
from grammar.meaning import Clause, Noun, NounPhrase

T = TypeVar("T")
RULES = yaml.safe_load((Path(__file__).parent / "sentences.yaml").read_text(encoding="utf-8"))


class ImpossibleError(Exception):
    """Nothing fits where something must stand: another meaning has to be drawn."""


class Chance:
    """Seeded choices, the same under every version of Python, as `Random.random` alone is."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def one(self, items: Sequence[T]) -> T:
        """One of the items, all equally likely; ImpossibleError if there is none."""
        if not items:
            raise ImpossibleError
        return items[int(self._random.random() * len(items))]

    def happens(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def weighted(self, weights: Mapping[T, float]) -> T:
        """One of the keys, as likely as its weight."""
        point = self._random.random() * sum(weights.values())
        for item, weight in weights.items():
            point -= weight
            if point < 0:
                return item
        raise ImpossibleError


class Meaning:
    """A template, and what stands in its slots, each of which is drawn when it is first asked for.

    A meaning inside of an `outer` one is said at its level, and no noun is drawn twice for both.
    """

    def __init__(self, group: str, chance: Chance, outer: "Meaning | None" = None) -> None:
        templates = RULES["groups"][group]
        weights = {index: each.get("weight", 1) for index, each in enumerate(templates)}
        self.template: dict[str, Any] = templates[chance.weighted(weights)]
        self.level: Level = self.template.get("level", outer.level if outer else "polite")
        self._chance = chance
        self._mentioned: set[Noun] = outer._mentioned if outer else set()
        self._drawn: dict[str, Any] = {}

    def __getitem__(self, slot: str) -> Any:
        """What stands in this slot, as its rule says; None where it is left out."""
        if slot not in self._drawn:
            rule = self._rule(slot)
            present = self._chance.happens(rule.pop("chance", 1))
            self._drawn[slot] = self._draw(rule) if present else None
        return self._drawn[slot]

    def clause(self, slot: str) -> Clause:
        """The clause in a slot with its subject and recipient, which may depend on its verb."""
        rule = {"subject": "who", "recipient": ""} | self._rule(slot)
        people = {role: self[rule[role]] for role in ("subject", "recipient") if rule[role]}
        clause: Clause = replace(self[slot], **people)
        return clause

    def _rule(self, slot: str) -> dict[str, Any]:
        """The template's own rule for a slot upon the one for all templates."""
        return {**RULES["slots"].get(slot, {}), **self.template.get(slot, {})}

    def _draw(self, rule: dict[str, Any]) -> Any:
        match rule:
            case {"phrase": group}:
                return Meaning(group, self._chance, self)
            case {"time": slot}:
                return Meaning(self[slot].time, self._chance, self)
            case {"number": numbers}:
                return self._chance.one(range(*numbers))
            case {"noun": source}:
                return self._noun_phrase(source, rule)
            case _:
                return self._clause(rule["verb"], rule)

    def _clause(self, names: str, rule: dict[str, Any]) -> Clause:
        """One of the named predicates, or the same as in slot `=slot`, in one of the `settings`."""
        same = names.startswith("=")
        return Clause(
            self[names[1:]].predicate if same else self._chance.one(named(PREDICATES, names)),
            negative=self._chance.happens(rule.get("negative", 0)),
            degree=self._chance.weighted(rule.get("degree", {"": 1})),
            **RULES["settings"][self._chance.weighted(rule.get("settings", {"present": 1}))],
        )

    def _nouns(self, source: Any) -> list[Noun]:
        """Nouns by name, by weighted names, or by what they go with: does.objects & is.objects."""
        if isinstance(source, dict):
            return named(NOUNS, self._chance.weighted(source))
        if "." not in source:
            return named(NOUNS, source)
        found: list[list[Noun]] = []
        for slot, role in (each.split(".") for each in source.split(" & ")):
            match self[slot]:
                case Meaning(template=scene):
                    found.append(named(NOUNS, scene[role]))
                case clause:
                    found.append(getattr(clause.predicate, role))
        return [noun for noun in found[0] if all(noun in goes for goes in found)]

    def _noun_phrase(self, source: Any, rule: dict[str, Any]) -> NounPhrase:
        """A noun that is new to the sentence, of the same group as the slot that it is `alike`."""
        candidates = [noun for noun in self._nouns(source) if noun not in self._mentioned]
        if alike := rule.get("alike"):
            candidates = [noun for noun in candidates if noun.group == self[alike].noun.group]
        noun = self._chance.one(candidates)
        self._mentioned.add(noun)
        phrase = self._determined(noun, self._chance.weighted(rule.get("determiner", {"the": 1})))
        degree = rule.get("degree", "")
        if noun.bare or not (degree or self._chance.happens(rule.get("rich", 0))):
            return phrase
        known = named(PREDICATES, "adjectives" if degree else "adjectives colors attributive")
        adjective = self._chance.one([each for each in known if noun in each.objects])
        return replace(phrase, adjective=adjective, degree=degree)

    def _determined(self, noun: Noun, determiner: str) -> NounPhrase:
        """The noun with this determiner, or with the nearest one that the noun takes."""
        if noun.bare or noun.personal:
            return NounPhrase(noun, "my" if noun.personal else "")
        if determiner == "how many" and not noun.counter:
            raise ImpossibleError
        owned, counted = determiner in ("my", "owner"), determiner == "count"
        if (owned and not noun.owned) or (counted and not noun.counter):
            determiner = "the"
        match determiner:
            case "owner":
                return NounPhrase(noun, plural=noun.pair, owner=self["owner"])
            case "count":
                count = self._chance.one(range(1, self._chance.weighted({6: 8, 20: 1, 30: 1})))
                return NounPhrase(noun, count=count, plural=count > 1)
            case "how many":
                return NounPhrase(noun, determiner, plural=True)
            case _ if noun.mass:
                return NounPhrase(noun, determiner if determiner in ("this", "that") else "")
            case "many":
                return NounPhrase(noun, plural=True)
            case "a":
                return NounPhrase(noun, "" if noun.pair else "a", plural=noun.pair)
        several = bool(noun.counter) and self._chance.happens(0.15)
        return NounPhrase(noun, determiner, plural=noun.pair or several)
