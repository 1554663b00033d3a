"""All stages in order, then the test set; a stage whose artifact is up to date skips itself."""

from __future__ import annotations

from pathlib import Path

from mtkit.artifacts.explain import FROM, origin_of
from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.recipe import scores_recipe
from mtkit.artifacts.runs import LATEST, config_of
from mtkit.artifacts.stage import Draft, Stage
from mtkit.batching.build import build_batches
from mtkit.config.corpora import Corpus
from mtkit.config.settings import Config
from mtkit.corpus.read import contents_of, read_pairs
from mtkit.corpus.validate import look_at
from mtkit.decoding.api import Translator
from mtkit.errors import UserError
from mtkit.report import data_lines, say, table
from mtkit.scoring.files import HYPOTHESES, REFERENCE, SOURCE, lines_of
from mtkit.scoring.metrics import score
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.setup import check_origin
from mtkit.training.train import finish as end_training
from mtkit.training.train import train

SAMPLES = 3


def run(config: Config) -> None:
    """Trains whatever is not up to date; with a test set, writes its scores to stdout.

    Raises what the stages raise.
    """
    look_at(config.data, "train", "valid", "test")
    check_origin(config)
    train_tokenizer(config)
    build_batches(config)
    _score(config, train(config))


def finish(run: Path | None = None) -> None:
    """Ends the training of a run where it stands, then does what `run` does after training.

    None is the last run, whatever model $MTKIT_MODEL names. Raises what `training.train.finish`
    raises.
    """
    place = run or LATEST
    config = config_of(place)
    if not (Path(config.run).exists() and place.samefile(config.run)):  # moved, or from elsewhere
        config = config.model_copy(update={"run": str(place)})
    look_at(config.data, "test")
    _score(config, end_training(config))


def _score(config: Config, model: Artifact) -> None:
    """Writes the scores on the test set, if there is one, to stdout; says how to translate."""
    if config.data.test is not None:
        test = _test(config, config.data.test, model)
        try:
            _show_samples(test.path)
            scores = {name: of for name, of in test.report.items() if name != FROM}
            rows = [[name, f"{of['score']:6.2f}", of["signature"]] for name, of in scores.items()]
            data_lines(table(rows, left=3))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{test.path}: not as mtkit writes it ({error!r}): delete it") from None
    say(f"to translate: echo 'a sentence' | mtkit translate -m {config.run}")


def _test(config: Config, corpus: Corpus, model: Artifact) -> Artifact:
    """The test set translated and scored, into RUN/test."""
    contents = contents_of(corpus, "data.test")
    inputs = {"model": model.identity, "test": contents.identity}
    sources = {**origin_of(model), **contents.told}
    path = Path(config.run) / "test"
    stage = Stage("test", path, scores_recipe(config), inputs, sources)
    return stage.ensure(config, lambda draft: _translate_test_set(draft, config, corpus, model))


def _translate_test_set(draft: Draft, config: Config, corpus: Corpus, model: Artifact) -> None:
    pairs = list(read_pairs(corpus))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    translator = Translator.load(model.path, config.training.device)
    translations = translator.translate_all(sources, "translating the test set")
    hypotheses = [translation.text for translation in translations]
    for name, lines in (SOURCE, sources), (REFERENCE, references), (HYPOTHESES, hypotheses):
        text = "".join(f"{line}\n" for line in lines)
        (draft.folder / name).write_text(text, encoding="utf-8")
    for it in score(hypotheses, references, language=config.data.target_language).values():
        draft.report[it.name] = {"score": round(it.value, 4), "signature": it.signature}


def _show_samples(folder: Path) -> None:
    texts = [lines_of(folder / name) for name in (SOURCE, REFERENCE, HYPOTHESES)]
    step = max(1, len(texts[0]) // SAMPLES)
    for source, reference, hypothesis in list(zip(*texts, strict=True))[::step][:SAMPLES]:
        say(f"\n  source       {source}\n  reference    {reference}\n  translation  {hypothesis}")
    say("")
