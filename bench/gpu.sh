#!/usr/bin/env bash
# Measures every row that needs a GPU and writes bench/results/gpu.json. Needs an NVIDIA GPU, and lockstep-trainer built with
# CUDA (make peers build). Accepts the arguments of bench/gpu.py; PYTHON selects another Python with torch.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ ! -e /dev/nvidiactl ]; then
  echo "bench/gpu.sh: error: no NVIDIA GPU found (/dev/nvidiactl); nothing was measured" >&2
  exit 75
fi
exec "${PYTHON:-.venv/bin/python}" bench/gpu.py --out bench/results/gpu.json "$@"
