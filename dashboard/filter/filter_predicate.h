// The smallest parts of a filter: one comparison, and the search for a text.
#pragma once

#include <functional>
#include <string>

#include "dashboard/filter/run_field.h"

namespace lockstep::dashboard {

using RunTest = std::function<bool(const catalog::RunSummary&, const catalog::NameTable&)>;

struct FieldComparison {
  RunField field;
  std::string op;    // = != < <= > >= ~ !~
  std::string text;  // what it is compared with, as written
  double now = 0;    // that ages count from
  bool is_quoted = false;
};

// Throws std::invalid_argument when the text does not fit the field and operator.
RunTest field_test(FieldComparison comparison);
// In any of the texts that say what a run is.
RunTest search_test(std::string text);

}  // namespace lockstep::dashboard
