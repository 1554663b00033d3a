"""`mtkit init --from` a model of several languages: which tags the corpora get."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from architectures import transformer
from folders import train, write_model
from mtkit.config.corpora import TextCorpus
from mtkit.errors import UserError
from mtkit.extras.adapt.languages import choose_tags
from mtkit.init.proposal import InitOptions
from mtkit.models.folder import OpenedModel, open_model

TAGS = ["deu_Latn", "eng_Latn", "yor_Latn"]
LINES = {
    "en": "The weather has been very good since we came here in the year {}.",
    "de": "Das Wetter ist sehr gut, seit wir im Jahr {} hierher gekommen sind.",
    "fr": "Il fait très beau depuis que nous sommes venus ici en {}.",
    "digits": "{}",
}
Answer = tuple[str | None, str | None, str | None]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> OpenedModel:
    """A model of which each source begins with the tag of its own language."""
    tokenizer = train(vocab_size=310, control_symbols=[f"<2{tag}>" for tag in TAGS])
    folder = tmp_path_factory.mktemp("languages") / "model"
    return open_model(write_model(folder, tokenizer, transformer(), source_tag="yor_Latn"))


@pytest.fixture
def options(tmp_path: Path) -> Callable[..., InitOptions]:
    def write(*sides: str, **others: object) -> InitOptions:
        """Return options with a corpus for each pair such as en-de, or en-de-TAG."""
        corpora: list[TextCorpus] = []
        for number, pair in enumerate(sides):
            source, target, *tag = pair.split("-")
            paths = [str(tmp_path / f"{number}.{side}") for side in (source, target)]
            for path, side in zip(paths, (source, target), strict=True):
                lines = [LINES[side].format(year) for year in range(1900, 1930)]
                Path(path).write_text("".join(f"{line}\n" for line in lines), "utf-8")
            target_tag = tag[0] if tag else None
            corpora.append(TextCorpus(source=paths[0], target=paths[1], target_tag=target_tag))
        options = InitOptions(corpora, 1.0, tmp_path / "c.yaml", "mtkit init", base="m")
        return InitOptions(**(vars(options) | others))

    return write


@pytest.mark.parametrize(
    ("corpora", "languages", "expected"),
    [
        (["en-de"], (None, None), ("eng_Latn", "deu_Latn", "en")),
        (["de-en"], (None, None), ("deu_Latn", "eng_Latn", "de")),
        (["en-digits"], (None, "yo"), ("eng_Latn", "yor_Latn", "en")),
        (["digits-digits"], ("yo", "de"), ("yor_Latn", "deu_Latn", "yo")),
        (["en-fr-deu_Latn"], (None, None), ("eng_Latn", "deu_Latn", "en")),
        (["digits-fr-de"], (None, None), ("yor_Latn", "de", "yo")),
        (["en-fr-de", "en-digits-yo"], (None, None), ("eng_Latn", None, "en")),
    ],
)
def test_a_run_has_the_tags_of_the_languages_of_its_corpora(
    corpora: list[str],
    languages: tuple[str | None, str | None],
    expected: Answer,
    opened: OpenedModel,
    options: Callable[..., InitOptions],
) -> None:
    changed, new = choose_tags(opened, options(*corpora, languages=languages))
    decoding = changed.config.decoding
    assert (decoding.source_tag, decoding.tag, decoding.sentences) == expected
    if len(corpora) == 1:
        assert new.corpora[0].target_tag == decoding.tag


def test_sets_of_the_user_get_the_tag_of_the_corpus(
    opened: OpenedModel, options: Callable[..., InitOptions]
) -> None:
    (held_out,) = options("de-en").corpora
    sets = options("en-de", existing={"valid": held_out, "test": held_out}, keep=held_out)
    _, new = choose_tags(opened, sets)
    tagged = [*new.corpora, *new.existing.values(), new.keep]
    assert [each and each.target_tag for each in tagged] == ["deu_Latn"] * 4


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        (["en-digits"], r"^--tags: the target language could not be identified; .*: deu_Latn, eng"),
        (["en-fr"], r"^--tags: the model has no tag for French \(fr\), the target language"),
        (["digits-de"], "^--languages: the source language could not be identified"),
        (["fr-de"], r"^--languages: .* has no tag for French \(fr\), the source language"),
        (["en-fr-de", "de-fr-yo"], "sources of the corpora are in de, en, but a run has one"),
        (["en-de-fr"], "--tags: this model has no target tag 'fr'"),
    ],
)
def test_what_init_cannot_know_names_the_option(
    corpora: list[str],
    message: str,
    opened: OpenedModel,
    options: Callable[..., InitOptions],
) -> None:
    with pytest.raises(UserError, match=message):
        choose_tags(opened, options(*corpora))
