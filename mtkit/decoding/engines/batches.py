"""Sentences of like length together, for engines that search them in batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mtkit.decoding.contract import Key, Sentence


def in_batches(sentences: Mapping[Key, Sentence], most: int) -> Iterator[list[Key]]:
    """Keys of the sentences: as many to a batch as `most` tokens have room for, with padding.

    The longest come first, so that searches side by side end at about the same time.
    """
    batch: list[Key] = []
    lengths = {key: len(sentence.source) for key, sentence in sentences.items()}
    for key in sorted(lengths, key=lambda key: -lengths[key]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > most:
            yield batch
            batch = []
        batch.append(key)
    if batch:
        yield batch
