"""What quality costs in speed: BLEU against sentences per second, as a table and a picture.

    python tests/benchmarks/speed_quality.py --source test2016.en --reference test2016.de \\
        --plot speed.png 4+4=runs/multi30k-en-de 6+1=runs/deep

Every model is translated with by PyTorch and CTranslate2, in float32 and their faster type, with
beams of 5, 2 and 1; each way is measured in a process of its own, when all is warm. BLEU is cased,
13a.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from mtkit.decoding.api import Translator
from mtkit.report import table
from mtkit.scoring.files import lines_of
from mtkit.scoring.metrics import corpus_bleu
from mtkit.study.bench.translate import ENGINES
from mtkit.study.bench.translation_rate import measure_apart
from mtkit.study.plots.picture import COLOURS, figure, save

BEAMS = (5, 2, 1)
MARKERS = "osD^v"
TICKS = [12.5 * 2**power for power in range(12)]


@dataclass(frozen=True)
class Point:
    """One way with one model."""

    model: str
    engine: str
    beam: int
    sentences_per_second: float
    bleu: float


def main() -> None:
    options = _options()
    source, reference = lines_of(options.source), lines_of(options.reference)
    points = []
    for named in options.models:
        name, path = named.split("=", 1)
        for engine, compute_type in ENGINES:
            load = partial(Translator.load, path, "cpu", engine=engine, compute_type=compute_type)
            for beam in BEAMS:
                search = partial(load, beam=beam)
                speed = measure_apart(search, source, options.seconds).sentences_per_second
                found = search().translate(source)
                bleu = round(corpus_bleu(found, reference, options.language), 2)
                points.append(Point(name, f"{engine} {compute_type}", beam, speed, bleu))
                print(json.dumps(asdict(points[-1])), flush=True)
    print(_text(points))
    if options.plot is not None:
        _draw(points, options.plot)


def _text(points: Sequence[Point]) -> str:
    header = ["model", "engine", "beam", "sentences/s", "BLEU"]
    rows = [
        [of.model, of.engine, str(of.beam), f"{of.sentences_per_second:,.1f}", f"{of.bleu:.2f}"]
        for of in points
    ]
    return "\n".join(table([header, *rows], left=2))


def _draw(points: Sequence[Point], path: Path) -> None:
    """A curve for each engine of each model: along it the beam narrows."""
    drawn, (axes,) = figure(width=8.4, height=4.4)
    engines = sorted({point.engine for point in points})
    names = list(dict.fromkeys(point.model for point in points))
    for (name, engine), curve in groupby(points, key=lambda point: (point.model, point.engine)):
        along = list(curve)
        axes.plot(
            [point.sentences_per_second for point in along],
            [point.bleu for point in along],
            color=COLOURS[engines.index(engine)],
            linestyle=("-", "--", ":")[names.index(name) % 3],
            marker=MARKERS[names.index(name) % len(MARKERS)],
            label=f"{name}, {engine}",
            alpha=0.9,
        )
        for point in along:
            place = (point.sentences_per_second, point.bleu)
            axes.annotate(str(point.beam), place, (4, 4), textcoords="offset points", fontsize=7)
    speeds = [point.sentences_per_second for point in points]
    ticks = [tick for tick in TICKS if min(speeds) / 2 < tick < 2 * max(speeds)]
    axes.set(xscale="log", xlabel="sentences per second (numbers: the beam)", ylabel="BLEU")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(drawn, path)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--language", default="de")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--plot", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
