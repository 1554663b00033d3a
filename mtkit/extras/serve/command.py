"""The command `serve`, which makes models available to other programs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Option

from mtkit.cli.options import DEFAULT_MODEL, ComputeOption, Device, Engine
from mtkit.errors import UserError

Repeated = list[str] | None


def serve(
    models: Annotated[
        Repeated,
        Option(
            "-m",
            "--model",
            metavar="PATH",
            help="Run or model, such as runs/a, or en:de=runs/a to name its languages; repeat the "
            f"option for more languages (default: {DEFAULT_MODEL}).",
        ),
    ] = None,
    host: Annotated[str, Option(help="Address to listen at (default: 127.0.0.1).")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port (default: 5000; 0: any).")] = 5000,
    keys: Annotated[
        Path | None, Option(help="File with a key per line; clients need one (default: none).")
    ] = None,
    allow_host: Annotated[Repeated, Option(metavar="NAME", help="Other name of this host.")] = None,
    allow_origin: Annotated[
        Repeated, Option(metavar="ORIGIN", help="Web site whose pages may use this server (CORS).")
    ] = None,
    max_characters: Annotated[
        int, Option(min=1, help="Most characters of a request (default: 50,000).")
    ] = 50_000,
    max_waiting: Annotated[
        int, Option(min=1, help="Most characters of all waiting requests (default: 1,000,000).")
    ] = 1_000_000,
    timeout: Annotated[
        float, Option(min=0.1, help="Most seconds for a translation (default: 60).")
    ] = 60.0,
    glossary: Annotated[
        Repeated,
        Option(metavar="PAIR=FILE", help="Terms of a language pair: en:de=a.tsv (repeatable)."),
    ] = None,
    prompt: Annotated[
        Repeated,
        Option(metavar="FORM", help="Form of a chat client's messages (see `mtkit guide serve`)."),
    ] = None,
    access_log: Annotated[bool, Option("--access-log", help="Log each request.")] = False,
    sample: Annotated[bool, Option("--sample", help="Sample if a temperature is sent.")] = False,
    device: Device = "auto",
    engine: Engine = "auto",
    compute_type: ComputeOption = "auto",
) -> None:
    """Serve models over HTTP, to people and to programs.

    There is a web page, and the interfaces of OpenAI, LibreTranslate and DeepL. Each model serves
    its pair of languages; other pairs go through a pivot language if possible.
    Example: mtkit serve -m runs/en-de -m runs/de-en --port 5000
    """
    if not all(map(find_spec, ("python_multipart", "starlette", "uvicorn"))):
        raise UserError("mtkit serve needs more packages; run `pip install 'mtkit[serve]'`")
    if sample and find_spec("torch") is None:
        raise UserError("--sample needs PyTorch; run `pip install torch`")
    from mtkit.extras.serve.directions import find_directions, open_glossaries
    from mtkit.extras.serve.prompts import compile_prompt
    from mtkit.extras.serve.server import read_keys, serve_models
    from mtkit.extras.serve.service import ServerOptions

    for each in prompt or []:
        compile_prompt(each)
    listed_keys = [] if keys is None else read_keys(keys)
    directions = find_directions(models or [])
    options = ServerOptions(
        host=host,
        port=port,
        keys=listed_keys,
        hosts=allow_host or [],
        origins=allow_origin or [],
        max_characters=max_characters,
        max_waiting=max_waiting,
        access_log=access_log,
        sample=sample,
        prompts=prompt or [],
        glossaries=open_glossaries(directions, glossary or []),
        timeout_seconds=timeout,
    )
    serve_models(directions, options, device=device, engine=engine, compute_type=compute_type)
