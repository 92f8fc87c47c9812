#!/usr/bin/env bash
# Formatting of every C++ file, and clang-tidy over the torch-free folders (those with LibTorch take minutes each).
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in clang-format clang-tidy; do
  command -v $tool >/dev/null || { echo "lint: $tool is missing; install it: apt-get install clang-format clang-tidy" >&2; exit 75; }
done
git ls-files '*.h' '*.cpp' | xargs clang-format --dry-run --Werror
cmake --preset release >/dev/null
git ls-files 'core/*.cpp' 'launch/*.cpp' 'tracking/*.cpp' 'cli/*.cpp' | xargs clang-tidy -p build --quiet
