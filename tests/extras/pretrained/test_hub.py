"""OWNER/NAME on the Hugging Face hub is a model wherever a model is named.

The client is huggingface_hub as it is; the server is local.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from safetensors.torch import load_file

from architectures import transformer
from commands import call
from folders import SENTENCES, as_if_trained, train, write_model
from hubs import MAIN, Hub, Repository, serving, use_hub
from m2m_models import write_nllb
from mtkit.artifacts.runs import find_base_model
from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.extras.pretrained import hub as hub_module
from mtkit.extras.pretrained import marian
from mtkit.extras.pretrained.huggingface import export_to_huggingface
from mtkit.extras.serve.directions import find_directions
from mtkit.models.weights import save_weights
from servers import application

pytestmark = pytest.mark.slow
NAME = "Helsinki-NLP/opus-mt-a-b"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model `model`, and its MarianMT folder `exported`."""
    folder = tmp_path_factory.mktemp("hub")
    write_model(folder / "model", train(), transformer(), as_if_trained)
    export_to_huggingface(str(folder / "model"), folder / "exported")
    (folder / "exported/manifest.json").unlink()
    return folder


@pytest.fixture
def exported(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original / "exported", tmp_path / "exported"))


@pytest.fixture
def hub(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with the exported model, and an empty current folder."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving({NAME: Repository({MAIN: exported})}) as hub:
        use_hub(hub.url, tmp_path / "hub-cache", monkeypatch)
        yield hub


def close(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go offline, as HF_HUB_OFFLINE=1 does."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def test_a_name_is_a_model_for_every_command(
    hub: Hub, original: Path, tmp_path: Path, capsys: Capture
) -> None:
    Path("in.txt").write_text("".join(f"{line}\n" for line in SENTENCES), "utf-8")
    translated = []
    for model in (str(original / "model"), NAME):
        assert call("translate", "-m", model, "in.txt") == 0
        out, err = capsys.readouterr()
        translated.append(out)
    assert translated[0] == translated[1] and len(translated[0].splitlines()) == len(SENTENCES)
    assert re.search(rf"downloading commit \w{{7}} from {hub.url}; licence: apache-2\.0", err)
    assert call("export", "-m", NAME, "--to", "ctranslate2", "-o", "out") == 0
    assert call("info", NAME) == 0
    assert f"imported from {NAME}, licence: apache-2.0" in capsys.readouterr().out
    Path("out.txt").write_text(translated[0], "utf-8")
    assert call("score", "--source", "in.txt", "out.txt", "-m", NAME) == 2
    assert "has no calibration" in capsys.readouterr().err
    assert load(NAME).translate(SENTENCES) == load(original / "model").translate(SENTENCES)
    assert hub.requests["model.safetensors"] == 1


def test_a_model_of_many_languages_translates_by_its_name(
    hub: Hub, tmp_path: Path, capsys: Capture
) -> None:
    import transformers

    theirs = write_nllb(transformers, tmp_path / "nllb", SENTENCES * 20)
    hub.repositories["facebook/nllb"] = Repository({MAIN: theirs}, licence="cc-by-nc-4.0")
    Path("in.txt").write_text("A dog runs.\n", "utf-8")
    assert call("translate", "-m", "facebook/nllb", "--tag", "de", "in.txt") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert "licence: cc-by-nc-4.0" in err and "the source is eng_Latn unless" in err
    assert hub.requests["sentencepiece.bpe.model"] == 1


def test_a_server_and_the_default_model_take_a_name(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (expected,) = load(NAME).translate(["A dog runs."])
    directions = find_directions([f"en:de={NAME}"])
    with application({NAME: load(NAME)}, directions) as send:
        fields = {"q": "A dog runs.", "source": "en", "target": "de"}
        answer = send("POST", "/translate", json=fields)
    assert answer.json()["translatedText"] == expected
    Path("in.txt").write_text("A dog runs.\n", "utf-8")
    monkeypatch.setenv("MTKIT_MODEL", NAME)
    capsys.readouterr()
    assert call("translate", "in.txt") == 0
    assert capsys.readouterr().out == f"{expected}\n"
    assert hub.requests["model.safetensors"] == 1


def test_only_the_files_that_are_read_are_downloaded(hub: Hub, exported: Path) -> None:
    for name in (marian.PICKLE_FILE, "tf_model.h5", "extra.json"):
        (exported / name).write_text("large")
    find_base_model(NAME)
    assert hub.requests.keys() <= set(marian.MODEL_FILES)


def test_a_path_that_exists_wins_over_a_name(hub: Hub, original: Path) -> None:
    shutil.copytree(original / "model", NAME)
    load(NAME)
    assert not hub.requests


def test_a_model_that_was_imported_needs_no_network(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    identity = find_base_model(NAME).identity
    close(hub, monkeypatch)
    assert find_base_model(NAME).identity == identity
    assert "using the model that was imported" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "cache")
    assert find_base_model(NAME).identity == identity
    assert "using the copy in the hub's cache" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "hub-cache")
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(UserError, match=r"offline.*`hf download \S+ --local-dir FOLDER`"):
        find_base_model(NAME)


def test_an_interrupted_download_is_said_and_resumed(hub: Hub, exported: Path) -> None:
    hub.cuts = 100
    with pytest.raises(UserError, match=r"was interrupted.* the same command resumes it"):
        find_base_model(NAME)
    hub.cuts = 0
    hub.requests.clear()
    assert find_base_model(NAME).identity == find_base_model(str(exported)).identity
    assert hub.requests == {"model.safetensors": 1}


def test_a_revision_is_a_model_of_its_own(hub: Hub, exported: Path, original: Path) -> None:
    other = write_model(original.parent / "other", train(vocab_size=310), transformer())
    export_to_huggingface(str(other), exported.parent / "second")
    hub.repositories[NAME].revisions["refs/pr/2"] = exported.parent / "second"
    main, second = find_base_model(NAME), find_base_model(f"{NAME}@refs/pr/2")
    assert main.identity != second.identity
    assert second.report["origin"]["place"] == f"{NAME}@refs/pr/2"
    assert find_base_model(f"{NAME}@{main.report['origin']['commit']}").path == main.path


def test_a_model_that_its_owner_replaces_is_imported_again(hub: Hub, exported: Path) -> None:
    first = find_base_model(NAME)
    path = exported / marian.WEIGHTS_FILE
    weights = load_file(path)
    weights["model.shared.weight"] += 1
    save_weights(weights, path)
    assert find_base_model(NAME).identity != first.identity


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nobody/nothing", "is neither a folder here nor a model on the Hugging Face hub"),
        ("nobody/private", "is neither a folder here nor a model on the Hugging Face hub"),
        (f"{NAME}@v9", "has no revision 'v9'"),
        ("gated/model", "only to users who have asked for it; .* `hf auth login`"),
        ("bert/base", r"has no source\.spm and no sentencepiece\.bpe\.model, so it is not"),
    ],
)
def test_what_the_hub_does_not_give_is_one_line(
    place: str, message: str, hub: Hub, exported: Path, tmp_path: Path, capsys: Capture
) -> None:
    hub.repositories["gated/model"] = Repository({MAIN: exported}, is_gated=True)
    other = Path(shutil.copytree(exported, tmp_path / "other"))
    (other / marian.SOURCE_SPM).unlink()
    hub.repositories["bert/base"] = Repository({MAIN: other})
    with pytest.raises(UserError, match=message):
        load(place)
    assert call("translate", "-m", place) == 2
    assert place.partition("@")[0] in capsys.readouterr().err.splitlines()[-1]


def test_pickles_are_refused_unless_the_hub_has_converted_them(
    hub: Hub, exported: Path, tmp_path: Path, capsys: Capture
) -> None:
    pickled = Path(shutil.copytree(exported, tmp_path / "pickled"))
    (pickled / marian.WEIGHTS_FILE).rename(pickled / marian.PICKLE_FILE)
    hub.repositories[NAME] = Repository({MAIN: pickled, "refs/pr/3": exported})
    with pytest.raises(UserError, match=r"pytorch_model\.bin are never loaded; .*@refs/pr/NUMBER"):
        find_base_model(NAME)
    offer = {
        "title": "Adding `safetensors` variant of this model",
        "status": "open",
        "num": 3,
        "repo": {"name": NAME, "type": "model"},
        "author": {"name": "someone"},
        "isPullRequest": True,
        "createdAt": "2023-05-01T00:00:00.000Z",
    }
    hub.offers = [offer]
    with pytest.raises(UserError, match="are never loaded"):
        find_base_model(NAME)
    offer["author"] = {"name": hub_module.CONVERTER}
    assert find_base_model(NAME).identity == find_base_model(str(exported)).identity
    assert f"using the safetensors of {NAME}@refs/pr/3" in capsys.readouterr().err
    assert marian.PICKLE_FILE not in hub.requests


def test_a_hub_that_does_not_answer_is_given_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "HUB_SECONDS", 0.1)
    hub.may_answer.clear()
    reason = r"cannot be reached \((no answer within 0\.1 s|timed out)\)"
    advice = rf"{reason}; .*`hf download \S+ --revision x --local-dir FOLDER`"
    with pytest.raises(UserError, match=advice):
        find_base_model(f"{NAME}@x")


def test_a_missing_run_is_not_looked_for_on_the_hub(hub: Hub, tmp_path: Path) -> None:
    hub.may_answer.clear()
    Path("base").mkdir()
    for place in ("base/nothing", "nothing", "./a/b", "/a/b", "a/b/c"):
        with pytest.raises(UserError, match="holds no model"):
            find_base_model(place)


def test_the_environment_names_the_hub(hub: Hub, tmp_path: Path) -> None:
    environment = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "home")}
    ended = subprocess.run(
        [sys.executable, "-m", "mtkit", "info", NAME],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0
    assert "licence: apache-2.0" in ended.stderr
