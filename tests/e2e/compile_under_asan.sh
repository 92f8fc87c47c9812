#!/usr/bin/env bash
# The cases of test_compiled_cases.py with the generated code under AddressSanitizer, where it is compared with Python as well as in
# lockstep-trainer: reads and writes beyond a tensor's memory end with a report. Arguments are pytest's.
set -euo pipefail
cd "$(dirname "$0")/../.."
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
printf '#!/bin/sh\nunset LD_PRELOAD\nexec g++ "$@" -O1 -fsanitize=address\n' > "$directory/g++"
chmod +x "$directory/g++"
export CXX=$directory/g++ ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:verify_asan_link_order=0
export LOCKSTEP_COMPILE_CASES=${LOCKSTEP_COMPILE_CASES:-all} LOCKSTEP_SOURCE=${LOCKSTEP_SOURCE:-$PWD} LOCKSTEP_BIN=${LOCKSTEP_BIN:-$PWD/build/bin}
# libstdc++ with it: libasan looks for its exceptions before Python has loaded it.
preload="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so.6)"
env LD_PRELOAD="$preload" .venv/bin/python -m pytest -q -p no:cacheprovider tests/e2e/test_compiled_cases.py "$@"
