// Snippets that are files of their own. They are compiled, not linked.
// clang-format off
#include "extending_1.inc"  // NOLINT
#include "data_1.inc"  // NOLINT
