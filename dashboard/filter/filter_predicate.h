// The leaves of a filter expression: comparisons and text searches.
#pragma once

#include <functional>
#include <string>

#include "dashboard/filter/run_field.h"

namespace lockstep::dashboard {

using RunPredicate = std::function<bool(const catalog::RunSummary&, const catalog::NameTable&)>;

struct FieldComparison {
  RunField field;
  std::string op;    // = == != < <= > >= ~ !~
  std::string text;  // the right-hand side, as written
  double now = 0;    // unix seconds; ages are relative to it
  bool is_quoted = false;
};

// Throws std::invalid_argument if the text is not valid for the field and operator.
RunPredicate field_predicate(FieldComparison comparison);
// Searches `text` in id, name, group, host, note and tags, case-insensitive.
RunPredicate text_predicate(std::string text);

}  // namespace lockstep::dashboard
