// Filter expressions that select runs:
//   state = failed and config.optimizer.lr >= 0.1 and (tag = baseline or created > 7d)
// See docs/dashboard_api.md for the grammar.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "dashboard/filter/filter_predicate.h"

namespace lockstep::dashboard {

// A syntax error, and its column.
class FilterError : public std::runtime_error {
 public:
  FilterError(const std::string& message, size_t column_from_1)
      : std::runtime_error(message), column(column_from_1) {}
  size_t column;
};

class RunFilter {
 public:
  // An empty expression matches every run. `text` is untrusted: at most 4096 bytes and 100 nesting
  // levels. `now`: unix seconds; ages are relative to it. Throws FilterError.
  RunFilter(std::string_view text, double now);

  // Thread: any.
  bool matches(const catalog::RunSummary& run, const catalog::NameTable& names) const {
    return !predicate_ || predicate_(run, names);
  }

 private:
  RunPredicate predicate_;  // empty: every run
};

}  // namespace lockstep::dashboard
