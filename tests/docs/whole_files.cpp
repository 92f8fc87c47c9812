// Snippets that are whole files. They are compiled, not linked.
// clang-format off
#include "extending_1.inc"  // NOLINT
#include "data_1.inc"  // NOLINT
#include "tutorial_1.inc"  // NOLINT
