// The tests that a filter expression is made of.
#pragma once

#include <memory>
#include <string>

#include "dashboard/filter/run_field.h"

namespace lockstep {

struct FilteredRun {
  const RunSummary& run;
  const NameTable& names;
  double now;
};

class FilterTest {
 public:
  virtual ~FilterTest() = default;
  virtual bool takes(const FilteredRun& run) const = 0;
};

struct FieldComparison {
  RunField field;
  std::string op;    // = != < <= > >= ~ !~
  std::string text;  // what it is compared with, as written
  double now = 0;    // that ages count from
  bool is_quoted = false;
};

// Throws std::invalid_argument when the text does not fit the field and operator.
std::unique_ptr<FilterTest> field_test(FieldComparison comparison);
std::unique_ptr<FilterTest> presence(RunField field);
// In any of the texts that say what a run is.
std::unique_ptr<FilterTest> search(std::string text);

std::unique_ptr<FilterTest> both(std::unique_ptr<FilterTest> a, std::unique_ptr<FilterTest> b);
std::unique_ptr<FilterTest> either(std::unique_ptr<FilterTest> a, std::unique_ptr<FilterTest> b);
std::unique_ptr<FilterTest> negation(std::unique_ptr<FilterTest> test);

}  // namespace lockstep
