"""The glossary of a run: its model folder has a copy, so that it can be moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.extras.terms.glossary import TermGlossary
from mtkit.pipeline import run
from mtkit.report import silently
from mtkit.training.train import train
from tasks import Capture, Fresh


def glossary_of(model: Path) -> dict[str, tuple[str, ...]]:
    with silently():
        glossary = load(model, engine="torch").request.glossary
    return dict(glossary.entries) if isinstance(glossary, TermGlossary) else {}


def test_the_model_of_a_run_brings_the_glossary_of_its_config_along(
    fresh: Fresh, tmp_path: Path, capsys: Capture
) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("# animals\ndog\tHUND\nibis\t\n")
    config = fresh("seq2seq", decoding={"glossary": str(terms)})
    model = train(config)
    shutil.copytree(model.path, tmp_path / "elsewhere")
    terms.unlink()
    assert glossary_of(tmp_path / "elsewhere") == {"dog": ("HUND",), "ibis": ()}

    with pytest.raises(UserError, match=r"decoding\.glossary: .*terms\.tsv"):
        train(config)
    terms.write_text("dog\tKATZE\n")
    before = model.identity
    model = train(config)  # no training step, but another model folder
    assert "rebuilding, because decoding.glossary changed" in capsys.readouterr().err
    assert model.identity != before
    assert glossary_of(model.path) == {"dog": ("KATZE",)}

    moved = terms.rename(tmp_path / "moved.tsv")
    same = train(fresh("seq2seq", decoding={"glossary": str(moved)}))
    assert same.identity == model.identity  # only the content counts
    assert glossary_of(train(fresh("seq2seq")).path) == {}


def test_a_faulty_glossary_ends_a_run_before_any_work(fresh: Fresh, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("dog\ta\na dog\n")
    config = fresh("seq2seq", run="new", decoding={"glossary": str(terms)})
    shutil.rmtree(config.run)
    with pytest.raises(UserError, match=r"decoding\.glossary: .*terms\.tsv:2: no tab"):
        run(config)
    assert not Path(config.run).exists()
