#!/usr/bin/env bash
# Formatting of every C++ file, and clang-tidy over the torch-free folders (all checks take minutes per file with LibTorch). In the
# other folders, only the thread-safety analysis of files with a Mutex, which takes seconds.
# clang-tidy 19: the library of g++ 12 hides std::source_location from Debian's default, 14.
# Usage: cmake/lint.sh [FILE ...]      with files, clang-tidy over those only
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in clang-format clang-tidy-19; do
  command -v $tool >/dev/null || { echo "lint: $tool is missing: run cmake/setup.sh --lint" >&2; exit 75; }
done
git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run --Werror
mkdir -p build-lint
cmake --preset lint >build-lint/configure.log 2>&1 || { cat build-lint/configure.log; exit 75; }
files=("$@")
if [ $# -eq 0 ]; then
  readarray -t files < <(git ls-files 'core/*.cpp' 'formats/*.cpp' ':!formats/parquet/*' ':!formats/store/arrow/*' 'launch/*.cpp' ':!launch/trainer_program/*' 'tracking/*.cpp' 'catalog/*.cpp' 'sweep/*.cpp' 'dashboard/*.cpp' 'cli/*.cpp' 'distributed/shm/*.cpp')
fi
# Ignore warnings and pragmas of g++ that clang does not know (ivdep), and deprecated functions that libstdc++ uses
# (std::stable_sort).
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-19 -p build-lint --quiet --extra-arg=-Wthread-safety --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unknown-pragmas --extra-arg=-Wno-deprecated-declarations

# A header without a source (a template) is checked where its test uses it.
[ $# -eq 0 ] || exit 0
packages=$(echo "$PWD"/.venv/lib/python3*/site-packages)
[ -d "$packages/torch/include" ] || { echo "lint: skipping the mutexes of the folders with LibTorch: .venv has none" >&2; exit 0; }
locked=()
for file in $(git grep -l '"core/system/mutex.h"' -- data models distributed trainer formats/parquet); do
  source=${file%.*}.cpp
  [ -e "$source" ] || source=tests/${file%%/*}/$(basename "${file%.*}")_test.cpp
  [ ! -e "$source" ] || locked+=("$source")
done
printf '%s\n' "${locked[@]}" | sort -u | xargs -P "$(nproc)" -I {} clang-tidy-19 --quiet '--checks=-*,misc-static-assert,clang-diagnostic-thread-safety*' {} -- \
  -std=c++20 -I"$PWD" -I"$PWD/include" -Ibuild-lint/generated -isystem "$packages/torch/include" \
  -isystem "$packages/torch/include/torch/csrc/api/include" -isystem "$packages/pyarrow/include" -Wthread-safety -Wno-deprecated-declarations
