"""`mtkit attend --explain`: whether attention shows which source words the output depends on.

Jain and Wallace 2019 ask this question; removing the most attended words follows Serrano and Smith
2019. Wiegreffe and Pinter 2019 discuss what this method cannot decide. Words are removed from the
sentence (Li et al. 2016), which works for all architectures; the translation is fixed.

Shapes: I source words, J output words (of the translation), M = 3 rankings, K = 3 numbers of
removed words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mtkit.corpus.files import input_lines
from mtkit.decoding.alignment import merge
from mtkit.decoding.reading import Reader, Reading, word_numbers
from mtkit.decoding.search.forced import attention_to_source, check_attention, shift_right
from mtkit.errors import UserError
from mtkit.extras.study.attend.sentences import named_sentences
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.progress import progress
from mtkit.report import data_lines, plural, table, warn
from mtkit.symbols import EOS, PAD

RANKINGS = ("leave one out", "attention", "random")
"""Rankings that decide which words are removed; each is compared with the first (Kendall's τ)."""
REMOVED = (1, 2, 3)
"""How many words are removed."""
MAX_BATCH = 64
"""Number of sentences that the model reads together."""
SKIPPED = f"under {max(REMOVED) + 1} words, too long, or several sentences"


def explain(
    model: str | None = None,
    text: str | None = None,
    references: Path | None = None,
    *,
    device: str = "auto",
    tag: str | None = None,
) -> None:
    """Measure on `text`, or on every line of stdin, and write a table.

    The translations to explain are the lines of `references`; by default the model translates.

    Raises:
        UserError: there is no such model, it has no attention, or there is nothing to explain.
    """
    reader = Reader.load(model, device, tag)
    check_attention(reader.model)
    sources = [sentence for _, sentence in named_sentences(text)]
    targets = [None] * len(sources) if references is None else list(input_lines(references))
    if len(targets) != len(sources):
        raise UserError(
            f"{references} has {plural(len(targets), 'line')}, but there are "
            f"{plural(len(sources), 'sentence')}"
        )
    generator = torch.Generator().manual_seed(1)
    rows: list[tuple[Tensor, Tensor]] = []
    with progress("explain", len(sources), "sentences") as shown:
        for source, target in zip(sources, targets, strict=True):
            with suppress(UserError):  # a sentence that cannot be read is left out
                reading = reader.read(source, target)
                if len(reading.source) > max(REMOVED) and reading.target_ids:
                    rows.append(measure_faithfulness(reader.model, reading, generator))
            shown.advance()
    if not rows:
        raise UserError(
            f"there is nothing to explain: every line is {SKIPPED}, or has no translation"
        )
    if len(rows) < len(sources):
        warn(f"left out {len(sources) - len(rows):,} of {len(sources):,} lines ({SKIPPED})")
    data_lines(_tabulate(rows))


@torch.no_grad()
def measure_faithfulness(
    model: EncoderDecoder, reading: Reading, generator: torch.Generator
) -> tuple[Float[Tensor, "M K"], Float[Tensor, " C"]]:
    """Return two means over the output words.

    - How far log P falls, in nats, for each ranking and each number of removed words.
    - Kendall's τ between the first ranking of source words and each of the C = M - 1 others. It
      leaves out output words for which all values of a ranking are tied; NaN if none is left.
    """
    no_word: set[int] = set()
    single_words = [{word} for word in range(len(reading.source))]
    computed = log_probs(model, reading, removed=[no_word, *single_words])  # (1 + I, J)
    log_p = computed[0]  # (J,)
    log_p_without_word = computed[1:]  # (I, J)
    importance = (log_p - log_p_without_word).T  # (J, I)
    attention = word_attention(model, reading).to(importance)
    random = torch.rand(importance.shape, generator=generator).to(importance)

    scores = torch.stack([importance, attention, random])  # (M, J, I), in the order of RANKINGS
    falls = log_p - _log_probs_without_best(model, reading, scores)  # (M, K, J)
    other_scores = scores[1:]  # (C, J, I)
    taus = kendall(other_scores, importance.expand_as(other_scores))  # (C, J)
    return falls.mean(dim=-1), taus.nanmean(dim=-1)


def _log_probs_without_best(
    model: EncoderDecoder, reading: Reading, scores: Float[Tensor, "M J I"]
) -> Float[Tensor, "M K J"]:
    """Return log P of each output word without the source words with its best scores."""
    ranked = scores.argsort(dim=-1, descending=True)  # (M, J, I): source words, best first
    removed: list[frozenset[int]] = []
    for ranked_words in ranked.flatten(0, 1).tolist():
        for count in REMOVED:
            removed.append(frozenset(ranked_words[:count]))
    # Many rankings begin with the same words, so each set is computed only once.
    unique = list(dict.fromkeys(removed))
    row_of_set = dict(zip(unique, log_probs(model, reading, unique), strict=True))
    rows = torch.stack([row_of_set[words] for words in removed])  # (M·J·K, J)
    rankings, outputs, _ = scores.shape
    by_output_word = rows.view(rankings, outputs, len(REMOVED), outputs)  # (M, J, K, J)
    # Words that are removed for output word j change log P of all output words, but only log P of
    # j itself counts.
    return by_output_word.diagonal(dim1=1, dim2=3)  # (M, K, J)


@torch.no_grad()
def log_probs(
    model: EncoderDecoder, reading: Reading, removed: Sequence[AbstractSet[int]]
) -> Float[Tensor, "R J"]:
    """Return log P of every output word (sum over subwords), after removing each of R sets."""
    device = model.device
    target_ids = torch.tensor([reading.target_ids], device=device)  # (1, T)
    word_of_subword = torch.tensor(word_numbers(reading.target), device=device)  # (T,)
    rows: list[Tensor] = []
    for start in range(0, len(removed), MAX_BATCH):
        batch = removed[start : start + MAX_BATCH]
        sources = [_source_without(reading, words) for words in batch]
        source = pad_sequence(sources, batch_first=True, padding_value=PAD).to(device)
        target = target_ids.expand(len(batch), -1)
        hidden = model(source, source != PAD, shift_right(target))
        logits = model.project(hidden)  # (batch, T, V)
        # A loss is -log P of a subword; `cross_entropy` wants the vocabulary as dimension 1.
        losses = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
        sums = losses.new_zeros(len(batch), len(reading.target))
        sums = sums.index_add(1, word_of_subword, losses)  # over the subwords of each word
        rows.append(-sums)
    return torch.cat(rows)


def _source_without(reading: Reading, removed: AbstractSet[int]) -> Tensor:
    """Return the ids of the source without some words, with EOS."""
    kept: list[int] = []
    for symbol, word in zip(reading.source_ids, word_numbers(reading.source), strict=True):
        if word not in removed:
            kept.append(symbol)
    return torch.tensor([*kept, EOS])


def word_attention(model: EncoderDecoder, reading: Reading) -> Float[Tensor, "J I"]:
    """Return the attention that is used for alignments, without the attention to EOS."""
    source = torch.tensor([[*reading.source_ids, EOS]], device=model.device)
    target = torch.tensor([reading.target_ids], device=model.device)
    weights = attention_to_source(model, source, target)[0, :, :-1].cpu().numpy()  # (T, S)
    merged = merge(
        weights,
        target_words=word_numbers(reading.target),
        source_words=word_numbers(reading.source),
    )
    return torch.from_numpy(merged)


def kendall(a: Float[Tensor, "*of I"], b: Float[Tensor, "*of I"]) -> Float[Tensor, "*of"]:
    """Return Kendall's τ-b of each pair of rows; NaN if all values of a row are tied."""
    x = _compare_pairs(a)
    y = _compare_pairs(b)
    agreements = (x * y).sum(dim=-1)  # less the disagreements
    untied_in_a = x.square().sum(dim=-1)
    untied_in_b = y.square().sum(dim=-1)
    return agreements / (untied_in_a * untied_in_b).sqrt()


def _compare_pairs(rows: Float[Tensor, "*of I"]) -> Float[Tensor, "*of P"]:
    """Return for the P = I² pairs of values in a row which one is larger: 1, -1, or 0 for ties."""
    differences = rows.unsqueeze(-1) - rows.unsqueeze(-2)  # (..., I, I)
    return differences.sign().flatten(-2)


def _tabulate(rows: Sequence[tuple[Tensor, Tensor]]) -> Iterator[str]:
    """Yield the lines of the report: means over the sentences."""
    falls = torch.stack([sentence_falls for sentence_falls, _ in rows], dim=-1)  # (M, K, N)
    taus = torch.stack([sentence_taus for _, sentence_taus in rows], dim=-1)  # (C, N)
    yield f"{plural(len(rows), 'sentence')}; ± is half a 95% confidence interval"
    yield ""
    yield "how far log P of an output word falls without source words, in nats"
    header = ["chosen by", *(f"without {count}" for count in REMOVED)]
    fall_rows = [
        [name, *map(_estimate, of_ranking)]
        for name, of_ranking in zip(RANKINGS, falls, strict=True)
    ]
    yield from table([header, *fall_rows])
    yield ""
    tau_rows = [["rank correlation of source words", "Kendall's τ"]]
    for name, of_ranking in zip(RANKINGS[1:], taus, strict=True):
        tau_rows.append([f"{name} and {RANKINGS[0]}", _estimate(of_ranking)])
    yield from table(tau_rows)


def _estimate(values: Float[Tensor, " N"]) -> str:
    """Return mean and half the 95 % confidence interval, ignoring NaN; a dash if unknown."""
    counted = values[~values.isnan()].double()
    if not len(counted):
        return "-"
    shown = f"{counted.mean():.3f}"
    if len(counted) > 1:
        half = 1.96 * counted.std() / len(counted) ** 0.5  # 95 % of a normal distribution
        shown += f" ± {half:.3f}"
    return shown
