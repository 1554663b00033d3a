"""The pages of the guide: the Markdown files of this folder."""

from __future__ import annotations

from importlib import resources

from mtkit.errors import UserError

READING_ORDER = ("corpus", "training", "translation", "evaluation", "python", "serve", "machines")
"""Topics in the order of their tasks; pages that are not named here come last."""
_BUILDING = "README"
"""The file that describes this folder to developers; it is no page."""


def read_pages() -> dict[str, str]:
    """Return the Markdown text of each page by its topic, in reading order."""
    folder = resources.files("mtkit.guide")
    texts = {
        file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".md")
    }
    del texts[_BUILDING]
    others = sorted(texts.keys() - set(READING_ORDER))
    return {topic: texts[topic] for topic in (*READING_ORDER, *others)}


def find_page(topic: str) -> str:
    """Return the Markdown text of a page.

    Raises:
        UserError: there is no such topic.
    """
    pages = read_pages()
    if topic not in pages:
        raise UserError(f"guide: no page on '{topic}'; choose from {', '.join(pages)}")
    return pages[topic]


def title_of(page: str) -> str:
    """Return the text of the heading with which a page begins."""
    heading = page.partition("\n")[0]
    return heading.removeprefix("# ")
