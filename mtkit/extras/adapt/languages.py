"""The languages of new text, by the tags of the base model."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from mtkit.config.corpora import Corpus
from mtkit.config.language_codes import find_language, language_name
from mtkit.config.target_tags import list_tags
from mtkit.corpus.read import read_pairs
from mtkit.corpus.statistics import Languages, compute_statistics
from mtkit.errors import UserError, blame_setting
from mtkit.init.proposal import InitOptions
from mtkit.models.folder import OpenedModel
from mtkit.report import say, warn
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import check_target_tags

MAX_PAIRS = 2_000
"""How many pairs of a corpus are read to identify its languages."""


def choose_tags(opened: OpenedModel, options: InitOptions) -> tuple[OpenedModel, InitOptions]:
    """Give each corpus its target tag, and the model the tags of what it will translate.

    Languages that the options do not name are identified in the text. Nothing changes for a model
    without tags.

    Raises:
        UserError: a language is unknown, or the model has no tag for it.
    """
    tokenizer = opened.tokenizer
    tags = [corpus.target_tag for corpus in options.corpora if corpus.target_tag]
    if tags or not tokenizer.tags:
        with blame_setting(("--tags",)):
            check_target_tags(tokenizer, tags)
    if not tokenizer.tags:
        return opened, options
    languages = [_identify(corpus, options.languages) for corpus in options.corpora]
    if not tags:
        options = _with_target_tag(options, _find_target_tag(tokenizer, languages[0][1]))
    is_one = len(options.corpora) == 1
    changes = {"tag": options.corpora[0].target_tag if is_one else None}
    if opened.config.decoding.source_tag is not None:
        sources = {source for source, _ in languages}
        source_tag = _find_source_tag(opened, sources, has_tags=bool(tags))
        changes |= {"source_tag": source_tag, "sentences": find_language(source_tag)}
        say(f"init: the sources have the tag {source_tag}")
    decoding = opened.config.decoding.model_copy(update=changes)
    config = opened.config.model_copy(update={"decoding": decoding})
    return replace(opened, config=config), options


def _identify(corpus: Corpus, declared: Languages) -> Languages:
    """Return the languages of a corpus; those that are not declared, from its first pairs."""
    statistics = compute_statistics(islice(read_pairs(corpus), MAX_PAIRS), declared)
    source, target = statistics.source, statistics.target
    return source.declared or source.language, target.declared or target.language


def _find_target_tag(tokenizer: Tokenizer, language: str | None) -> str:
    """Return the tag of the targets of the only corpus, and say it."""
    tag = tokenizer.find_tag(language) if language else None
    if tag is None:
        raise UserError(
            f"--tags: {_describe_missing('target', language)}; name its tag, or that of a related "
            f"language: {list_tags(tokenizer.tags)}"
        )
    say(f"init: the targets have the tag {tag}; if this is wrong, use --tags")
    return tag


def _find_source_tag(opened: OpenedModel, sources: set[str | None], *, has_tags: bool) -> str:
    """Return the tag of the sources of all corpora; `has_tags`: whether the options name tags."""
    if len(sources) > 1:
        names = ", ".join(sorted(source or "an unknown language" for source in sources))
        raise UserError(
            f"--from: the sources of the corpora are in {names}, but a run has one source "
            "language; adapt the model to one corpus after the other"
        )
    (language,) = sources
    tag = opened.tokenizer.find_tag(language) if language else None
    if tag is not None:
        return tag
    missing = _describe_missing("source", language)
    if not has_tags:
        raise UserError(
            f"--languages: {missing}; name both languages; if the model lacks one, name a "
            "related language"
        )
    usual = str(opened.config.decoding.source_tag)
    warn(f"--from: {missing}, so sources get the tag {usual}; or set decoding.source_tag")
    return usual


def _describe_missing(side: str, language: str | None) -> str:
    if language is None:
        return f"the {side} language could not be identified"
    return f"the model has no tag for {language_name(language)} ({language}), the {side} language"


def _with_target_tag(options: InitOptions, tag: str) -> InitOptions:
    """Return the options with a target tag for the corpus and the sets of the user."""
    change = {"target_tag": tag}
    (corpus,) = options.corpora
    existing = {part: each.model_copy(update=change) for part, each in options.existing.items()}
    keep = options.keep and options.keep.model_copy(update=change)
    return replace(
        options, corpora=[corpus.model_copy(update=change)], existing=existing, keep=keep
    )
