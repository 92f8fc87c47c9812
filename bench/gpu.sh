#!/usr/bin/env bash
# Every row that needs a GPU, in one go, into bench/results/gpu.json. Needs an NVIDIA GPU, and lockstep-trainer built with the
# CUDA half (make peers build). Arguments are those of bench/gpu.py; PYTHON names another Python with torch.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -e /dev/nvidiactl ]; then
  echo "bench/gpu.sh: error: there is no NVIDIA GPU on this machine (/dev/nvidiactl); nothing was measured" >&2
  exit 75
fi
exec "${PYTHON:-.venv/bin/python}" bench/gpu.py --out bench/results/gpu.json "$@"
