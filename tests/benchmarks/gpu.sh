#!/bin/sh
# Measure training and search on the GPU of this machine, from this checkout: see gpu.py.
#     tests/benchmarks/gpu.sh [--seconds 60] [--corpus data/multi30k] [ROW ...]
# $PYTHON is the interpreter (default: python3).
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "${PYTHON:-python3}" "$root/tests/benchmarks/gpu.py" "$@"
