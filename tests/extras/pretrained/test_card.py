"""An exported folder has a model card that the Hugging Face hub reads as it is."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import call
from mtkit.artifacts.manifest import open_artifact
from mtkit.artifacts.records import load_record
from mtkit.artifacts.replacement import create
from mtkit.config.settings import Config
from mtkit.decoding.api import load
from mtkit.extras.pretrained.card import LICENCE_GAP, write_card
from mtkit.pipeline import run
from mtkit.scoring.metrics import Score
from tasks import Capture, tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
FORMATS = {"ctranslate2": "ctranslate2", "huggingface": "transformers"}
"""The formats of exports, and what the hub calls the library that reads them."""
LINE = "A sentence."
"""The text in the code of a card."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("card")
    write_reversal_task(folder)
    data = tiny_config(folder, "transformer").data.model_dump(exclude_defaults=True)
    config = tiny_config(
        folder,
        "transformer",
        data=data | {"target_language": "no"},
        model={"norm": "post", "activation": "swish"},
        tokenizer={"type": "bpe", "byte_fallback": True, "vocab_size": 310},
        decoding={"beam": 2, "max_length": 20},
    )
    run(config)
    return config


@pytest.fixture
def model(trained: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The run, in the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained.run, "trained")
    return "trained"


def export(model: str, format: str) -> str:
    """Return the card of an export of the model."""
    assert call("export", "-m", model, "--to", format, "-o", "out") == 0
    return Path("out/README.md").read_text("utf-8")


def metadata_of(card: str) -> dict[str, Any]:
    _, metadata, _ = card.split("---\n", 2)
    values = yaml.safe_load(metadata)
    assert isinstance(values, dict)
    return values


@pytest.mark.parametrize("format", FORMATS)
def test_the_hub_reads_the_metadata_in_which_only_the_licence_is_missing(
    format: str, model: str
) -> None:
    card = export(model, format)
    metadata = metadata_of(card)
    assert metadata["library_name"] == FORMATS[format]
    assert "no" in metadata["language"]  # not false, as `no` without quotes is
    assert metadata["pipeline_tag"] == "translation"
    assert metadata["metrics"] == ["bleu", "chrf", "ter"]
    assert "license" not in metadata
    assert "\n# license: " in card and "## Licence" in card
    hub = pytest.importorskip("huggingface_hub")
    assert hub.ModelCard(card).data.to_dict() == metadata


def test_a_card_has_the_scores_of_the_run_with_their_signatures(model: str) -> None:
    card = export(model, "ctranslate2")
    report = open_artifact(Path(model, "test"), "test").report
    for metric in ("bleu", "chrf", "ter"):
        score = load_record(Score, report[metric], Path("manifest.json"))
        signature = score.signature.replace("|", r"\|")
        assert f"| test set | {score.name} | {score} | `{signature}` |" in card
    assert "| validation set, greedy search | chrF2 |" in card
    assert "400 training pairs, trained for 12 steps" in card
    # Scores of another model are no scores of this one.
    shutil.copytree(Path(model, "model"), "alone")
    shutil.rmtree("out")
    assert "test set" not in export("alone", "ctranslate2")


@pytest.mark.parametrize("format", FORMATS)
def test_the_code_of_a_card_translates(format: str, model: str, capsys: Capture) -> None:
    pytest.importorskip(FORMATS[format])
    card = export(model, format)
    (code,) = re.findall(r"```python\n(.*?)```", card, re.S)
    capsys.readouterr()
    exec(code, {})
    printed = capsys.readouterr().out
    if format == "ctranslate2":
        assert printed == load(model, engine="ctranslate2").translate([LINE])[0] + "\n"
    else:  # transformers searches in its own way
        (translation,) = ast.literal_eval(printed)
        assert isinstance(translation, str)


def test_the_card_of_a_model_of_another_program_has_gaps_for_its_languages(model: str) -> None:
    export(model, "huggingface")
    Path("out").rename("foreign")
    assert call("export", "--from", "huggingface", "foreign", "-o", "imported") == 0
    card = export("imported", "huggingface")
    assert "\n# language: " in card
    assert "language" not in metadata_of(card)
    assert "## Scores" not in card


@pytest.mark.parametrize("format", FORMATS)
def test_what_to_do_next_with_an_export_names_the_library_that_reads_it(
    format: str, model: str, capsys: Capture
) -> None:
    export(model, format)
    capsys.readouterr()
    assert call("info", "out") == 0
    facts = " ".join(capsys.readouterr().out.split())
    assert "mtkit run" not in facts
    assert FORMATS[format] in facts.partition(" next ")[2]


# ---- the card of a run's model ----


def card_of(run: str) -> Path:
    return Path(run, "model", "README.md")


def rewrite_model(model: str) -> None:
    """Replace the model of the run by one with the same weights, from other batches."""
    path = Path(model, "model")
    artifact = open_artifact(path, "model")
    manifest = artifact.manifest
    report = {**artifact.report, "steps": 99}
    inputs = {**manifest["inputs"], "batches": "0" * 64}
    with create(path, "model", manifest["settings"], inputs, report) as draft:
        for name in artifact.files:
            shutil.copyfile(path / name, draft / name)


def test_a_run_ends_with_a_card_that_the_hub_reads_and_no_hash_covers(model: str) -> None:
    card = card_of(model).read_text("utf-8")
    metadata = metadata_of(card)
    assert metadata["library_name"] == "mtkit"
    assert metadata["metrics"] == ["bleu", "chrf", "ter"]
    assert "| test set | BLEU |" in card and "\n# license: " in card
    card_of(model).write_text("my own card", "utf-8")
    assert call("info", model, "--verify") == 0


def test_the_code_of_the_card_of_a_model_translates(model: str, capsys: Capture) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", card_of(model).read_text("utf-8"), re.S)
    shutil.copytree(Path(model, "model"), "model")
    capsys.readouterr()
    exec(code, {})
    assert capsys.readouterr().out == f"{load(model).translate([LINE])}\n"


def test_a_card_that_nobody_has_edited_follows_the_model(model: str, capsys: Capture) -> None:
    rewrite_model(model)
    assert "12 steps" in card_of(model).read_text("utf-8")
    write_card(Path(model, "model"))
    assert "99 steps" in card_of(model).read_text("utf-8")
    assert "choose a licence" in capsys.readouterr().err
    write_card(Path(model, "model"))
    assert capsys.readouterr().err == ""


def test_an_edited_card_stays_when_the_model_is_replaced(model: str, capsys: Capture) -> None:
    edited = card_of(model).read_text("utf-8").replace(LICENCE_GAP, "license: cc-by-4.0")
    card_of(model).write_text(edited, "utf-8")
    write_card(Path(model, "model"))
    assert "earlier model" not in capsys.readouterr().err
    rewrite_model(model)
    write_card(Path(model, "model"))
    assert card_of(model).read_text("utf-8") == edited
    assert "describes an earlier model" in capsys.readouterr().err
    card_of(model).write_text("my own card", "utf-8")
    write_card(Path(model, "model"))
    assert "earlier model" not in capsys.readouterr().err


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_takes_the_edited_card_along_with_code_of_its_own(
    format: str, model: str
) -> None:
    made = export(model, format)
    shutil.rmtree("out")
    written = card_of(model).read_text("utf-8")
    card_of(model).write_text(written.replace(LICENCE_GAP, "license: cc-by-4.0"), "utf-8")
    assert export(model, format) == made.replace(LICENCE_GAP, "license: cc-by-4.0")


def test_an_export_follows_no_link_in_the_place_of_a_card(model: str) -> None:
    Path("secret").write_text("SECRET", "utf-8")
    card_of(model).unlink()
    card_of(model).symlink_to(Path("secret").resolve())
    assert call("export", "-m", model, "--to", "huggingface", "-o", "out") == 1
    assert not Path("out").exists()


def test_an_edited_card_does_not_damage_an_export(model: str) -> None:
    export(model, "huggingface")
    Path("out/README.md").write_text("my own card", "utf-8")
    assert call("export", "--from", "huggingface", "out", "-o", "imported") == 0
