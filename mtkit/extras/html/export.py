"""Export to one HTML page that holds a model, its tokenizer and the search, and needs no network.

The page's own files are in `page/`. Matrices are rounded to int8 as CTranslate2 does it: each row
has a scale of its own.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import defaultdict
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from torch import Tensor

from mtkit.artifacts.output import check_output, open_output
from mtkit.config.language_codes import is_language_code, language_name
from mtkit.corpus.characters import assigned_characters, is_letter, title_case
from mtkit.decoding.estimation.estimator import load_estimator
from mtkit.decoding.glossary import GLOSSARY
from mtkit.decoding.model_languages import find_model_languages
from mtkit.decoding.text.sentences import split_sentences
from mtkit.errors import UserError
from mtkit.models.folder import OpenedModel, read_models
from mtkit.models.weights import get_weights, load_model
from mtkit.plugins import load_plugin
from mtkit.report import say
from mtkit.symbols import BOS, PAD, SPACE
from mtkit.tokenizer.pieces import model_from_bytes
from mtkit.tokenizer.spelling import LONG_DASHES, SourceSpelling, is_accent

SCRIPTS = ("characters", "sentencepiece", "spelling", "steps", "loops", "model", "translator")
"""The files of the translator; each needs only those before it."""
SPM_TYPES = (1, 2)
"""Unigram and BPE, as numbered by SentencePiece's `TrainerSpec`."""
MAX_FAST_PARAMETERS = 20_000_000
"""Largest model that a page translates fast enough to wait for."""
PAGE_LIMITS = (
    "the page searches greedily, as `mtkit translate --beam 1`",
    "the page ends sentences by simpler rules",
    "the page copies ICU messages, such as {count, plural, ...}, as they are",
    "the page reads emphasis, links and entities within words as text",
)
"""What differs from `mtkit translate` in every page."""


def export_to_html(model: str | None, output: Path | None) -> None:
    """Write a model as the page `output`, a file.

    Raises:
        UserError: the page cannot run the model, or `output` cannot be written.
    """
    if output is None:
        raise UserError("--to html: choose a file with -o, such as translator.html")
    check_output(output)
    read_models([model], lambda models: _export(models[0], output))


def _export(opened: OpenedModel, output: Path) -> None:
    _check_exportable(opened)
    weights = get_weights(load_model(opened.config, opened.weights))
    spms = map(b64encode, opened.tokenizer.models.values())
    data = {
        **_describe(opened),
        "model": opened.config.model.as_pair().model_dump(),
        "decoding": _decoding(opened),
        "tags": {
            tag: {"id": number, "label": language_name(tag) if is_language_code(tag) else tag}
            for tag, number in sorted(opened.tokenizer.tags.items())
        },
        "tokenizers": [spm.decode() for spm in spms],
        "spelling": _tabulate_spelling(opened.tokenizer.source_spelling),
        "titles": _unusual_title_cases(),
        "patterns": load_plugin("actions", "span_patterns"),
        "unreliable_flags": sorted(load_estimator(opened.artifact).unreliable_flags),
    }
    page = _build_page(data, _quantise(weights)).encode()
    with open_output(output) as (file, _):
        file.write(page)
    say(f"exported: {output} ({len(page) / 1e6:.1f} MB); open it in a browser")
    for limit in PAGE_LIMITS:
        say(f"limit: {limit}")
    say("limit: the page splits lines at URLs, placeholders and tags that would be lost")
    if GLOSSARY in opened.artifact.files:
        say("limit: the page does not know the glossary of the model")
    if opened.config.decoding.protect:
        say("limit: the page does not know decoding.protect of the model")
    parameters = sum(weight.numel() for weight in weights.values())
    if parameters > MAX_FAST_PARAMETERS:
        say(f"limit: the page is slow, because the model has {parameters / 1e6:.0f} M parameters")


def _tabulate_spelling(spelling: SourceSpelling) -> dict[str, Any]:
    """Return what `SourceSpelling` looks up.

    Tables of characters list for each spelling those that it stands for; marks are left out.
    """
    nearest: defaultdict[str, str] = defaultdict(str)
    nearest_opening: defaultdict[str, str] = defaultdict(str)
    for character in assigned_characters():
        closing = spelling.find_nearest(character, False)
        if closing is None or is_accent(character) or spelling.is_known(character):
            continue
        nearest[closing] += character
        opening = spelling.find_nearest(character, True)
        if opening is not None and opening != closing:
            nearest_opening[opening] += character
    return {
        "nearest": nearest,
        "nearestOpening": nearest_opening,
        "longDashes": LONG_DASHES,
        "scripts": sorted(filter(None, spelling.scripts)),
    }


def _check_exportable(opened: OpenedModel) -> None:
    """Raise UserError, naming the setting or the file, if a page cannot run the model."""
    pair = opened.config.model.as_pair()
    for side, settings in (("encoder", pair.encoder), ("decoder", pair.decoder)):
        if settings.kind != "transformer":
            raise UserError(f"model.{side}.kind is {settings.kind}; a page runs only Transformers")
        if getattr(settings, "positions", None) == "fairseq":
            raise UserError("model.positions is fairseq; a page does not run M2M-100 and NLLB")
        if getattr(settings, "neighbourhood", None) is not None:
            raise UserError("model.neighbourhood: a page cannot restrict attention")
    for name, spm in opened.tokenizer.models.items():
        if model_from_bytes(spm).trainer_spec.model_type not in SPM_TYPES:
            raise UserError(f"{name}: a page splits text only by BPE or unigram models")


def _describe(opened: OpenedModel) -> dict[str, Any]:
    """Return what the page says about the model: its name and languages."""
    path = opened.artifact.path.resolve()
    name = path.name if path.name != "model" else path.parent.name
    steps = opened.artifact.report.get("steps")
    known = find_model_languages(opened)
    # A page for several languages offers their tags.
    target = None if opened.tokenizer.tags else next(iter(known.targets), None)
    languages = [known.source, target]
    return {
        "name": f"{name}, {steps:,} steps" if isinstance(steps, int) else name,
        "languages": [language and language_name(language) for language in languages],
        "codes": languages,
    }


def _decoding(opened: OpenedModel) -> dict[str, Any]:
    """Return the settings of decoding, with all abbreviations and forbidden symbols."""
    settings = opened.config.decoding
    abbreviations = settings.abbreviations.split()
    if settings.sentences is not None:
        # sentencex knows more abbreviations than the settings. To find them, try each whole word of
        # the vocabulary: if "A word. A" stays one sentence, it is one.
        source, _ = opened.tokenizer.vocabularies
        begun = [piece[1:] for piece in source if piece[:1] == SPACE]
        words = [word for word in begun if word and all(map(is_letter, word))]
        for word in words:
            if len(split_sentences(f"A {word}. A", settings.sentences)) == 1:
                abbreviations.append(word)
    forbidden = [PAD, BOS, *opened.tokenizer.source_only]
    return settings.model_dump() | {"abbreviations": abbreviations, "forbidden": forbidden}


def _unusual_title_cases() -> dict[str, str]:
    """Return letters with their title case, if JavaScript, which knows only capitals, is wrong."""
    titles: dict[str, str] = {}
    for letter in assigned_characters():
        capitals = letter.upper()
        if title_case(letter) != capitals[0] + capitals[1:].lower():
            titles[letter] = title_case(letter)
    return titles


def _quantise(weights: dict[str, Tensor]) -> bytes:
    """Return the weights as a safetensors file, with matrices in int8 and the scales of rows."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, tensor in weights.items():
        weight = tensor.float().numpy()
        if weight.ndim == 2:
            largest = np.abs(weight).max(axis=1)
            largest[largest == 0] = 127.0
            scales = np.float32(127.0) / largest
            arrays[f"{name}.scales"] = scales
            weight = np.rint(weight * scales[:, None]).astype(np.int8)
        arrays[name] = weight
    return safetensors.numpy.save(arrays)


def _build_page(data: dict[str, Any], weights: bytes) -> str:
    """Return the page; its policy allows only its own scripts and style, and no request."""
    page = files("mtkit.extras.html") / "page"

    def read(name: str) -> str:
        return (page / name).read_text(encoding="utf-8").strip()

    engine = "\n\n".join(read(f"{name}.js") for name in SCRIPTS)
    script, style = read("page.js"), read("style.css")
    policy = (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; worker-src blob:; "
        f"script-src {_source_of(engine)} {_source_of(script)}; style-src {_source_of(style)}"
    )
    title = " to ".join(filter(None, data["languages"])) or data["name"]
    parts = {
        "policy": policy,
        "title": escape(title),
        "style": style,
        "engine": engine,
        "script": script,
        # "<" would let a piece of the vocabulary end the element.
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "weights": b64encode(weights).decode(),
    }
    template = read("translator.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template) + "\n"


def _source_of(script: str) -> str:
    """Return the source expression of a Content-Security-Policy for one script or style."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
