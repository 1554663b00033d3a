"""RUN/test: translations of the test set, by an adapted model and its base model; scores."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

from mtkit.artifacts.manifest import MANIFEST, Artifact
from mtkit.artifacts.recipe import scores_recipe
from mtkit.artifacts.records import dump_record, load_record
from mtkit.artifacts.stage import Draft, Stage
from mtkit.batching.text_lines import write_lines
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair
from mtkit.corpus.sets import hash_sets, open_set
from mtkit.corpus.spread import spread
from mtkit.decoding.api import load
from mtkit.decoding.estimation.flags import UNLIKE
from mtkit.decoding.limits import limit_lengths, max_test_seconds
from mtkit.decoding.text.line import Line, Translation
from mtkit.progress import progress
from mtkit.scoring.line_files import HYPOTHESES_FILE, REFERENCE_FILE, SOURCE_FILE
from mtkit.scoring.memory import group_by_tag
from mtkit.scoring.quality import QualityReport, score_test_set
from mtkit.scoring.verdict import describe_baseline, describe_verdict
from mtkit.training.fine_tuning import find_fine_tuning

MIN_TEST_LINES = 30
"""Fewest lines of a test set that are translated, however long they take."""
BASE_FILE = "base_model.txt"
"""File of RUN/test: the translations of the base model, if adaptation has changed it."""
ALL_LINES = "all."
"""How names of files in RUN/test begin that have all lines, if only a part was translated."""


def evaluate(config: Config, model: Artifact) -> Artifact | None:
    """Translate and score the test set, in RUN/test. Without a test set, return None."""
    if config.data.test is None:
        return None
    inputs = {"model": model.identity} | hash_sets(config, "test")
    stage = Stage("test", Path(config.run) / "test", scores_recipe(config), inputs)
    return stage.ensure(config, lambda draft: _translate_and_score(draft, config, model))


def _translate_and_score(draft: Draft, config: Config, model: Artifact) -> None:
    """Fill RUN/test: the lines of the test set, their translations, and the report on them."""
    with open_set(config, "test") as test_set:
        pairs = list(test_set)
    translations = _translate(pairs, config, model)
    scored = [pairs[row] for row in sorted(translations)]
    chosen = [translations[row] for row in sorted(translations)]
    texts = [translation.text for translation in chosen]
    write_lines(draft.folder / SOURCE_FILE, [pair.source for pair in scored])
    write_lines(draft.folder / REFERENCE_FILE, [pair.target for pair in scored])
    write_lines(draft.folder / HYPOTHESES_FILE, texts)
    if len(scored) < len(pairs):
        for tag, rows in group_by_tag(pairs).items():
            name = ALL_LINES if tag is None else f"{ALL_LINES}{tag}."
            sources = [pairs[row].source for row in rows]
            references = [pairs[row].target for row in rows]
            write_lines(draft.folder / f"{name}{SOURCE_FILE}", sources)
            write_lines(draft.folder / f"{name}{REFERENCE_FILE}", references)
    base = find_fine_tuning(config).translate_with_base_model(config, model, scored)
    if base is not None:
        write_lines(draft.folder / BASE_FILE, base)
    is_unlike = [UNLIKE in translation.flags for translation in chosen]
    report = score_test_set(config, scored, texts, is_unlike, base)
    draft.report.update(dump_record(report))
    draft.report["lines"] = len(scored)
    draft.report["all_lines"] = len(pairs)
    draft.report["verdict"] = describe_verdict(report)
    draft.report["baseline"] = describe_baseline(report)


def _translate(pairs: Sequence[Pair], config: Config, model: Artifact) -> dict[int, Translation]:
    """Translate the test set, or as many lines as there is time for; return them by row.

    The first round translates MIN_TEST_LINES lines. After each round, the speed so far tells how
    many more lines there is time for. The next round takes at most twice as many as the one before,
    at equal distances among the lines that are left.
    """
    translator = load(model.path, config.training.device)
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    lines = [Line(pair.source, tag=pair.target_tag) for pair in pairs]
    # The references only limit the length of translations.
    groups = limit_lengths(sources, references, translator.tokenizer, translator.request)
    max_seconds = max_test_seconds(float(model.report["training_seconds"]))
    done: dict[int, Translation] = {}
    with closing(translator), progress("translating the test set", len(pairs), "lines") as bar:
        translator.submit(lines[:1]).result()  # the first call prepares the engine
        started = time.monotonic()
        next_lines = MIN_TEST_LINES
        while next_lines > 0 and len(done) < len(pairs):
            remaining = [row for row in range(len(pairs)) if row not in done]
            chosen = set(spread(remaining, next_lines))
            for group in groups:
                rows = [row for row in group.rows if row in chosen]
                chosen_lines = [lines[row] for row in rows]
                translations = chain.from_iterable(translator.stream(chosen_lines, group.request))
                for row, translation in zip(rows, translations, strict=True):
                    done[row] = translation
                    bar.advance()
            seconds = time.monotonic() - started
            affordable_lines = int((max_seconds - seconds) * len(done) / max(seconds, 1e-6))
            next_lines = min(2 * next_lines, affordable_lines)
    return done


def open_report(test: Artifact) -> QualityReport:
    """Return the report on a test set; UserError if it is damaged."""
    return load_record(QualityReport, test.report, test.path / MANIFEST)
