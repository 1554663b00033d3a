"""An unfinished run can translate, be finished early, and resume."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from pytest import MonkeyPatch

from commands import call
from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.replacement import remove
from mtkit.artifacts.runs import OWNER, checkpoint_steps, locked, save_config
from mtkit.config.yaml import dump_config
from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.models.folder import open_model
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.finish import finish
from mtkit.training.train import train
from steps import train_until
from tasks import Capture, Fresh

pytestmark = pytest.mark.slow

LINES = ["ant bee", "cat", "dog eel fox"]


@pytest.mark.parametrize("kind", ["transformer", "seq2seq"])
def test_an_unfinished_run_translates_with_its_best_checkpoint(
    kind: str, fresh: Fresh, tmp_path: Path, capsys: Capture
) -> None:
    config = fresh(kind, training={"validate_every": 2, "best_by": "loss"})
    train_until(config, 7)
    index = Path("run/checkpoints/checkpoints.json")
    assert json.loads(index.read_text()) == {"best": 6, "last": 7, "steps": 12}
    capsys.readouterr()
    best = Path("run/checkpoints/step-00000006")
    opened = open_model("run")
    assert capsys.readouterr().err == (
        "run: training is not finished, so the best checkpoint so far of step 6 is used\n"
    )
    assert opened.artifact.path == best
    assert opened.run == Path("run")
    assert opened.weights == best / "model.safetensors"
    translations = load("run").translate(LINES)
    # It is all that is needed, wherever it is copied to.
    shutil.copytree(best, tmp_path / "elsewhere" / "copy")
    shutil.rmtree("run/tokenizer")
    assert load(tmp_path / "elsewhere" / "copy", engine="torch").translate(LINES) == translations
    index.write_text('{"best": null, "last": 7}')
    assert load("run").translate(LINES)
    assert "the newest checkpoint of step 7" in capsys.readouterr().err


def test_every_command_accepts_an_unfinished_run_as_a_model(fresh: Fresh, capsys: Capture) -> None:
    train_until(fresh("transformer"), 7)
    Path("in.txt").write_text("ant bee\ncat\n")
    assert os.path.samefile("runs/latest", "run")
    warning = "not finished, so the best checkpoint so far of step 6 is used"
    for command in (
        "translate in.txt",
        "attend ant",
        "export --to huggingface -o exported",
        "export --to ctranslate2",
    ):
        capsys.readouterr()
        assert call(*command.split()) == 0, command
        assert capsys.readouterr().err.count(warning) == 1, command


@pytest.mark.parametrize(
    "command",
    [
        "translate in.txt --engine torch",
        "translate in.txt --engine ctranslate2",
        "attend ant",
        "export --to huggingface -o exported",
        "export --to ctranslate2",
        "export --to ctranslate2 --quantization int8",
    ],
)
def test_a_command_uses_the_next_checkpoint_if_training_deletes_the_one_that_it_has_opened(
    command: str, fresh: Fresh, tmp_path: Path, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    train_until(fresh("transformer"), 7)
    Path("in.txt").write_text("ant bee\ncat\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # without a converted model
    load_tokenizer = Tokenizer.load

    def load_then_delete(artifact: Artifact) -> Tokenizer:
        """Load the last that is needed before the weights."""
        tokenizer = load_tokenizer(artifact)
        if artifact.path.name == "step-00000006":
            remove(artifact.path)
            Path("run/checkpoints/checkpoints.json").write_text('{"best": 7, "last": 7}')
        return tokenizer

    monkeypatch.setattr(Tokenizer, "load", load_then_delete)
    capsys.readouterr()
    assert call(*command.split()) == 0
    err = capsys.readouterr().err
    assert err.index("checkpoint so far of step 6 is") < err.index("checkpoint so far of step 7 is")


def test_a_model_that_is_deleted_for_good_while_it_is_opened_is_an_error(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    train(fresh("transformer"))
    load_tokenizer = Tokenizer.load

    def load_then_delete(artifact: Artifact) -> Tokenizer:
        tokenizer = load_tokenizer(artifact)
        shutil.rmtree(artifact.path)
        return tokenizer

    monkeypatch.setattr(Tokenizer, "load", load_then_delete)
    with pytest.raises(UserError, match="run/model holds no model"):
        load("run/model", engine="torch")


def test_info_shows_the_progress_of_an_unfinished_run(fresh: Fresh, capsys: Capture) -> None:
    config = fresh("transformer", training={"validate_every": 2, "best_by": "loss"})
    train_until(config, 7)
    metrics = Path("run/metrics.jsonl")
    records = [json.loads(line) | {"seconds": 120.0} for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(f"{json.dumps(record)}\n" for record in records))

    def state() -> str:
        return described(capsys)["state"]

    assert state() == "interrupted, step 7 of 12, 0:01:40 left, at the speed so far"
    finish(config)
    assert state() == "finished early, step 7 of 12, by `mtkit finish`"
    train(fresh("transformer", "whole"))
    Path("runs/latest").unlink()
    Path("runs/latest").symlink_to("../whole")
    assert state() == "finished, step 12 of 12"
    (Path("whole/checkpoints/checkpoints.json")).write_text("{")
    assert state() == "finished, step 12"


def described(capsys: Capture, *arguments: str) -> dict[str, str]:
    """Return the facts of `mtkit info`, by name, each in one line."""
    capsys.readouterr()
    assert call("info", *arguments) == 0
    facts: dict[str, str] = {}
    name = ""
    for line in capsys.readouterr().out.splitlines():
        if line.startswith(" "):
            facts[name] += f" {line.strip()}"
        else:
            name, text = line.split(maxsplit=1)
            facts[name] = text
    return facts


def test_info_tells_the_states_of_a_run_apart_and_names_a_command_that_works(
    fresh: Fresh, capsys: Capture
) -> None:
    config = fresh("transformer").model_copy(update={"run": "run"})
    Path("mtkit.yaml").write_text(dump_config(config))
    Path("run").rename("other")
    for arguments in ([], ["mtkit.yaml"]):
        facts = described(capsys, *arguments)
        assert facts["state"] == "not trained yet" and facts["next"] == "mtkit run"
    Path("other").rename("run")
    save_config(config)
    facts = described(capsys, "run")
    assert facts["state"] == "not trained yet"
    assert facts["next"] == "mtkit run -c run/config.yaml"

    train_until(config, 7)
    Path("run/metrics.jsonl").unlink()  # a short run has logged nothing
    facts = described(capsys)
    assert facts["state"] == "interrupted, step 7 of 12"
    assert facts["next"].startswith("mtkit run -c run/config.yaml to resume, or mtkit finish run")
    with locked(Path("run")):
        facts = described(capsys)
        assert facts["state"].startswith("running, step 7 of 12, by process ")
        assert facts["next"].startswith("mtkit translate -m run < in.txt")
    (Path("run") / OWNER).write_text("process 1, which was killed")
    assert described(capsys)["state"].startswith("interrupted")

    assert call("finish", "run") == 0
    facts = described(capsys)
    assert facts["state"] == "finished early, step 7 of 12, by `mtkit finish`"
    assert "or mtkit run -c run/config.yaml to train to the end" in facts["next"]
    assert call("run", "-c", "run/config.yaml") == 0
    said = " ".join(capsys.readouterr().err.split())
    facts = described(capsys)
    assert facts["state"] == "finished, step 12 of 12"
    verdict, _, baseline = facts["verdict"].partition("; copying")
    assert f"verdict: {verdict}" in said and f"baseline: copying{baseline}" in said


def test_finish_gives_the_model_of_a_run_planned_to_end_there(fresh: Fresh) -> None:
    config = fresh("transformer", training={"validate_every": 2, "best_by": "loss"})
    train_until(config, 7)
    early = finish(config)
    assert (early.report["steps"], early.manifest["settings"]["ended"]) == (7, 7)
    train(
        fresh("transformer", "seven", training={"validate_every": 2, "best_by": "loss", "steps": 7})
    )
    seven = open_artifact(Path("seven/model"), "model")
    others = {"training_seconds": 0, "from": None}
    assert {**early.report, **others} == {**seven.report, **others}
    weights = [safetensors.torch.load_file(it.path / "model.safetensors") for it in (early, seven)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_a_finished_run_can_resume_as_if_never_finished(fresh: Fresh, capsys: Capture) -> None:
    whole, ended = fresh("transformer", "whole"), fresh("transformer", "ended")
    train(whole)
    train_until(ended, 7)
    before = {path: path.read_bytes() for path in Path("ended/checkpoints").rglob("*.*")}
    finish(ended)
    assert {path: path.read_bytes() for path in Path("ended/checkpoints").rglob("*.*")} == before
    capsys.readouterr()
    train(ended)
    errors = capsys.readouterr().err
    assert "after step 7; training continues" in errors and "rebuilding" not in errors
    assert "resuming after step 7 of 12" in errors
    models = [open_artifact(Path(name, "model"), "model") for name in ("whole", "ended")]
    assert models[0].identity == models[1].identity
    finish(ended)
    assert "ended/model is up to date" in capsys.readouterr().err
    assert open_artifact(Path("ended/model"), "model").identity == models[1].identity


def test_a_finished_run_that_cannot_resume_is_refused_and_not_said_to_be_rebuilt(
    fresh: Fresh, capsys: Capture
) -> None:
    train(fresh("transformer"))
    capsys.readouterr()
    other = fresh("transformer", training={"clip_norm": 2.0, "steps": 14})
    with pytest.raises(UserError, match="saved with other settings"):
        train(other)
    assert "rebuilding" not in capsys.readouterr().err
    train(fresh("transformer", training={"steps": 14}))
    assert "model: rebuilding, because training.steps was 12, now 14" in capsys.readouterr().err


def test_a_run_that_has_made_all_steps_is_finished_as_by_training(
    fresh: Fresh, capsys: Capture
) -> None:
    config = fresh("transformer")
    trained = train(config)
    remove(trained.path)
    capsys.readouterr()
    model = finish(config)
    errors = capsys.readouterr().err
    assert "early" not in errors
    assert "all 12 steps are done" in errors
    assert model.identity == trained.identity


def test_a_run_without_a_step_cannot_be_finished(fresh: Fresh) -> None:
    train(fresh("transformer", "before"))
    with pytest.raises(UserError, match="train with `mtkit train`"):
        finish(fresh("transformer"))
    assert Path("runs/latest").resolve() == Path("before").resolve()


def test_damaged_checkpoints_are_ignored_at_the_end(fresh: Fresh, capsys: Capture) -> None:
    changes = {"validate_every": 2, "best_by": "loss", "keep": 9, "average": 2}
    train_until(fresh("transformer", training=changes), 7)
    (Path("run/checkpoints/step-00000006") / "model.safetensors").write_bytes(b"")
    assert open_model("run").artifact.path.name == "step-00000007"  # 6 is the best
    assert "step-00000006/model.safetensors is missing or damaged" in capsys.readouterr().err
    model = finish(fresh("transformer", training=changes))
    assert 6 not in model.report["averaged_steps"]
    assert "ignored" in capsys.readouterr().err
    for step in 2, 4, 6:
        shutil.rmtree(f"run/checkpoints/step-{step:08}")
    model = train(fresh("transformer", training=changes | {"steps": 5}))
    assert (model.report["weights"], model.report["averaged_steps"]) == ("best checkpoint", [7])


@pytest.mark.slow
def test_finish_without_a_path_ends_runs_latest_and_prints_its_scores(
    fresh: Fresh, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    train_until(fresh("transformer").model_copy(update={"run": "run"}), 7)
    monkeypatch.setenv("MTKIT_MODEL", "another")  # which is ignored
    capsys.readouterr()
    assert call("finish") == 0
    captured = capsys.readouterr()
    assert "after step 7 of 12\n" in captured.err
    rows = [line.split()[0] for line in captured.out.splitlines() if "[" in line]
    assert rows == ["score", "BLEU", "chrF2", "TER"]
    assert "\nrun: run\n" in Path("run/config.yaml").read_text()
    Path("run").rename("moved")
    model, test = (open_artifact(Path(f"moved/{kind}"), kind) for kind in ("model", "test"))
    written = [it.path.stat().st_ino for it in (model, test)]
    assert call("finish", "moved") == 0
    assert "train: moved/model is up to date" in capsys.readouterr().err
    assert [it.path.stat().st_ino for it in (model, test)] == written
    assert call("finish", "nowhere") == 2
    assert capsys.readouterr().err.endswith("nowhere is not a run directory\n")


def test_checkpoints_are_verified(fresh: Fresh, capsys: Capture) -> None:
    train_until(fresh("transformer"), 7)
    assert call("info", "run", "--verify") == 0
    weights = Path("run/checkpoints/step-00000006/model.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert call("info", "run", "--verify") == 2
    assert f"{weights} is missing or damaged" in capsys.readouterr().err
    assert call("info", "run", "--verify", "--config") == 2


def test_two_runs_can_start_at_the_same_time(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """Each process links itself many times."""
    monkeypatch.chdir(tmp_path)
    program = "import sys; from pathlib import Path; from mtkit.artifacts.runs import link_latest\n"
    program += "for _ in range(500): link_latest(Path(sys.argv[1]))"
    runs = [
        subprocess.Popen([sys.executable, "-c", program, name], stderr=subprocess.PIPE, text=True)
        for name in ("one", "two", "one", "two")
    ]
    assert [run.communicate()[1] for run in runs] == [""] * 4
    assert Path("runs/latest").is_symlink()
    assert [path.name for path in Path("runs").iterdir()] == ["latest"]


def test_an_unwritable_runs_latest_stops_no_run(fresh: Fresh, capsys: Capture) -> None:
    """The run itself lies elsewhere."""
    config = fresh("transformer")
    Path("runs").write_text("no folder")
    assert train(config).report["steps"] == 12
    assert "runs/latest cannot be written" in capsys.readouterr().err


def test_a_run_without_a_step_accepts_other_settings(fresh: Fresh, capsys: Capture) -> None:
    train_until(fresh("transformer", training={"save_every": 50, "validate_every": 50}), 1)
    assert os.path.samefile("runs/latest", "run")  # from the start of its training
    shutil.rmtree("run/checkpoints/step-00000001")
    assert not checkpoint_steps(Path("run/checkpoints"))
    other = fresh("transformer", training={"label_smoothing": 0.2})
    assert train(other).report["steps"] == 12
