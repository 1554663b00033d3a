"""What ranks gain: as many as pay, of one thread each, against one process with all threads.

    python tests/benchmarks/ranks.py --size tiny --rounds 3 --seconds 10

Both make the same updates, by turns; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
from statistics import median

from processes import mtkit, run

WAYS = {"one process": "1", "ranks": "auto"}
"""And training.ranks."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=("tiny", "base"), default="tiny")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    bench = mtkit("bench", "train", "--json", "-q", "--size", options.size)
    bench += ["--seconds", str(options.seconds)]
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way, ranks in WAYS.items():
            record = run([*bench, "--set", f"training.ranks={ranks}"]).record
            speeds[way].append(record["tokens_per_second"]["median"])
            print(f"{way} ({record['ranks']} x {record['threads']} threads): ", end="")
            print(f"{speeds[way][-1]:,.0f} target tokens/s, {record['peak_mib']} MiB", flush=True)
    one, several = (median(values) for values in speeds.values())
    print(f"ranks / one process: {several / one:.2f}")


if __name__ == "__main__":
    main()
