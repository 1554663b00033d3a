#!/bin/sh
# Test and measure mtkit on the GPU of this machine, from this checkout, in 8 minutes: see gpu.py.
#     tests/benchmarks/gpu.sh [--corpus data/multi30k] [--out FIGURES] [ROW ...]
# $PYTHON is the interpreter (default: python3).
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "${PYTHON:-python3}" "$root/tests/benchmarks/gpu.py" "$@"
