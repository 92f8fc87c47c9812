#!/usr/bin/env bash
# One NVIDIA GPU: runs the GPU tests, then measures the rows that need a GPU and writes bench/results/gpu.json.
#   bench/gpu.sh [--tests | --bench] [arguments of bench/gpu.py]
# Uses the programs in build/bin (make peers build), or of the release archive LOCKSTEP_ARCHIVE (make dist), which needs neither
# Debian packages nor a network. PYTHON selects the Python with torch, transformers, peft and pytest; default: .venv/bin/python.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -e /dev/nvidiactl ]; then
  echo "bench/gpu.sh: error: no NVIDIA GPU found (/dev/nvidiactl); nothing was measured" >&2
  exit 75
fi
part=${1:-}
case $part in --tests | --bench) shift ;; *) part= ;; esac
python=${PYTHON:-.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export LOCKSTEP_SOURCE=$PWD LOCKSTEP_BIN=${LOCKSTEP_BIN:-$PWD/build/bin} PYTHONDONTWRITEBYTECODE=1
if [ -n "${LOCKSTEP_ARCHIVE:-}" ]; then
  tar -xzf "$LOCKSTEP_ARCHIVE" -C "$work"
  LOCKSTEP_BIN=$(echo "$work"/lockstep-*/bin)
  PATH=$(dirname "$(command -v "$python")"):$PATH  # where its programs look for LibTorch
fi

tested=0
if [ "$part" != --bench ]; then
  if [ ! -e .data/mnist/.complete ]; then
    LOCKSTEP_MNIST=$work/digits
    export LOCKSTEP_MNIST
    mkdir "$LOCKSTEP_MNIST"
    PYTHONPATH=tests/golden "$python" - "$LOCKSTEP_MNIST" <<'END'
import sys
import idx
import numpy
random = numpy.random.default_rng(0)
digits = random.integers(0, 200, (10, 28, 28))
for part, count in (("train", 2000), ("t10k", 500)):
    labels = random.integers(0, 10, count)
    idx.write_idx(f"{sys.argv[1]}/{part}-images-idx3-ubyte", digits[labels] + random.integers(0, 56, (count, 28, 28)))
    idx.write_idx(f"{sys.argv[1]}/{part}-labels-idx1-ubyte", labels)
END
  fi
  parallel=()
  "$python" -c 'import xdist' 2>/dev/null && parallel=(-n auto --maxprocesses 14)
  PYTHONPATH=python "$python" -m pytest -q --tb=short -p no:cacheprovider "${parallel[@]}" tests/e2e/test_gpu.py || tested=$?
fi
[ "$part" = --tests ] || "$python" bench/gpu.py --out bench/results/gpu.json "$@"
exit "$tested"
