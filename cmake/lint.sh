#!/usr/bin/env bash
# Formatting of every C++ file, and clang-tidy over the torch-free folders (those with LibTorch take minutes each).
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
  readarray -t files < <(git ls-files 'core/*.cpp' 'formats/*.cpp' 'launch/*.cpp' 'tracking/*.cpp' 'catalog/*.cpp' 'dashboard/*.cpp' 'cli/*.cpp' 'distributed/shm/*.cpp')
fi
# Ignore warnings and pragmas of g++ that clang does not know (ivdep), and deprecated functions that libstdc++ uses
# (std::stable_sort).
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-19 -p build-lint --quiet --extra-arg=-Wthread-safety --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unknown-pragmas --extra-arg=-Wno-deprecated-declarations
