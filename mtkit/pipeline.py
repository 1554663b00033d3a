"""All stages in order, then the scores on the test set."""

from __future__ import annotations

from pathlib import Path

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.recipe import scores_recipe
from mtkit.artifacts.runs import config_of, default_run
from mtkit.artifacts.stage import FROM, Draft, Stage, origin_of
from mtkit.batching.build import build_batches
from mtkit.config.corpora import Corpus
from mtkit.config.settings import Config
from mtkit.config.yaml import as_config
from mtkit.corpus.read import hash_corpora, read_pairs
from mtkit.corpus.validate import check_all_readable
from mtkit.decoding.api import load
from mtkit.decoding.translate import translate_with_progress
from mtkit.errors import UserError
from mtkit.report import data_lines, say, table
from mtkit.scoring.files import HYPOTHESES_FILE, REFERENCE_FILE, SOURCE_FILE, load_lines
from mtkit.scoring.metrics import Score, score
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.finish import finish
from mtkit.training.setup import check_origin
from mtkit.training.train import train

SAMPLES = 3
"""Number of test sentences that are shown with their translations."""


def run(config: Config | str | Path) -> dict[str, Score]:
    """Run every stage that is not up to date, and return the scores on the test set by metric.

    The metrics are "bleu", "chrf" and others of `mtkit.score`; without a test set there are none.

    Raises what the stages raise.
    """
    config = as_config(config)
    check_all_readable(config.data, "train", "valid", "test")
    check_origin(config)
    train_tokenizer(config)
    build_batches(config)
    return _score(config, train(config))


def finish_run(run: Path | None = None) -> dict[str, Score]:
    """End the training of a run early, and return the scores of its model on the test set.

    The default is that of `default_run`, whatever $MTKIT_MODEL names. Raises what ending it raises.
    """
    place = run or default_run()
    config = config_of(place)
    if not (Path(config.run).exists() and place.samefile(config.run)):  # the run was moved
        config = config.model_copy(update={"run": str(place)})
    check_all_readable(config.data, "test")
    return _score(config, finish(config))


def print_scores(scores: dict[str, Score]) -> None:
    """Write scores to stdout, with their signatures."""
    rows = [[it.name, f"{it.value:6.2f}", it.signature] for it in scores.values()]
    data_lines(table(rows, left=3))


def run_and_print(config: Config) -> None:
    """Run every stage that is not up to date, and write the scores to stdout."""
    print_scores(run(config))


def _score(config: Config, model: Artifact) -> dict[str, Score]:
    """Return the scores on the test set, and say how to translate."""
    scores = {}
    if config.data.test is not None:
        test = _test_set(config, config.data.test, model)
        try:
            _show_samples(test.path)
            scores = {
                key: Score(facts["name"], float(facts["score"]), facts["signature"])
                for key, facts in test.report.items()
                if key != FROM
            }
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{test.path} is damaged ({error!r}); delete it") from None
    say(f"to translate: echo 'a sentence' | mtkit translate -m {config.run}")
    return scores


def _test_set(config: Config, corpus: Corpus, model: Artifact) -> Artifact:
    """Return the artifact RUN/test: the test set, translated and scored."""
    contents = hash_corpora(corpus, "data.test")
    inputs = {"model": model.identity, "test": contents.identity}
    sources = {**origin_of(model), **contents.files}
    path = Path(config.run) / "test"
    stage = Stage("test", path, scores_recipe(config), inputs, sources)
    return stage.ensure(config, lambda draft: _translate_test_set(draft, config, corpus, model))


def _translate_test_set(draft: Draft, config: Config, corpus: Corpus, model: Artifact) -> None:
    pairs = list(read_pairs(corpus))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    translator = load(model.path, config.training.device)
    translations = translate_with_progress(translator, sources, "translating the test set")
    hypotheses = [translation.text for translation in translations]
    for name, lines in (
        (SOURCE_FILE, sources),
        (REFERENCE_FILE, references),
        (HYPOTHESES_FILE, hypotheses),
    ):
        text = "".join(f"{line}\n" for line in lines)
        (draft.folder / name).write_text(text, encoding="utf-8")
    for key, it in score(hypotheses, references, language=config.data.target_language).items():
        facts = {"name": it.name, "score": round(it.value, 4), "signature": it.signature}
        draft.report[key] = facts


def _show_samples(folder: Path) -> None:
    texts = [load_lines(folder / name) for name in (SOURCE_FILE, REFERENCE_FILE, HYPOTHESES_FILE)]
    step = max(1, len(texts[0]) // SAMPLES)
    for source, reference, hypothesis in list(zip(*texts, strict=True))[::step][:SAMPLES]:
        say(f"\n  source       {source}\n  reference    {reference}\n  translation  {hypothesis}")
    say("")
