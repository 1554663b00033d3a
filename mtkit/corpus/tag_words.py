"""Tags that are also words of the sources."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from mtkit.config.corpora import Corpus, listed
from mtkit.config.target_tags import piece_of_tag
from mtkit.corpus.findings import FaultyPairs
from mtkit.corpus.read import Pair
from mtkit.corpus.store import CorpusRows
from mtkit.report import plural


class TagWords:
    """Counts the sources that have a tag of their corpora as a word."""

    def __init__(self, corpora: Corpus | list[Corpus]) -> None:
        self._tags: dict[str, str | None] = {}
        """Words that look like a target tag, and tags that are read as words, with None."""
        for corpus in listed(corpora):
            tag = corpus.target_tag
            if tag is not None:
                spellings = (tag, f"<{tag}>", piece_of_tag(tag), f">>{tag}<<")
                self._tags |= dict.fromkeys(spellings, tag)
        self._tags |= {corpus.tag: None for corpus in listed(corpora) if corpus.tag}
        self._found: dict[str, FaultyPairs] = {}

    @classmethod
    def find(cls, rows: CorpusRows) -> TagWords:
        """Return the tags of corpora that are words of their sources."""
        tag_words = cls(rows.corpora)
        if tag_words._tags:
            deque(tag_words.watch(rows), maxlen=0)
        return tag_words

    def watch(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the pairs, and count the words that are tags."""
        for pair in pairs:
            if self._tags:
                for word in self._tags.keys() & pair.source.split():
                    self._found.setdefault(word, FaultyPairs()).add(pair)
            yield pair

    def messages(self) -> Iterator[str]:
        """Yield a line for each tag that is a word, with the first place and what it means."""
        for word, found in sorted(self._found.items(), key=lambda item: (-item[1].count, item[0])):
            sources = f"{plural(found.count, 'source')} (first: {found.examples[0]['where']})"
            tag = self._tags[word]
            if tag is None:
                yield (
                    f"data.train: the tag {word!r} is also a word of {sources}, which the model "
                    "cannot tell from tagged ones; choose a tag that no text contains, such as <bt>"
                )
            else:
                yield (
                    f"data.train: {word!r} is also a word of {sources}; it stays a word there, "
                    f"because only the setting target_tag adds the tag {tag!r}"
                )
