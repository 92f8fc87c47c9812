// The expressions that choose runs:
//   state = failed and config.optimizer.lr >= 0.1 and (tag = baseline or created > 7d)
// docs/dashboard_api.md has the grammar.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "dashboard/filter/filter_predicate.h"

namespace lockstep::dashboard {

// What is wrong with an expression, and where.
class FilterError : public std::runtime_error {
 public:
  FilterError(const std::string& message, size_t column_from_1)
      : std::runtime_error(message), column(column_from_1) {}
  size_t column;
};

class RunFilter {
 public:
  // An empty expression takes every run. Any text is safe: nesting is at most 100 deep and the text
  // at most 4096 bytes long. `now`: unix seconds, which ages count from. Throws FilterError.
  RunFilter(std::string_view text, double now);

  // Thread: any.
  bool takes(const catalog::RunSummary& run, const catalog::NameTable& names) const {
    return !test_ || test_(run, names);
  }

 private:
  RunTest test_;  // empty: every run
};

}  // namespace lockstep::dashboard
