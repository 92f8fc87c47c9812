// The filters, tests, methods and global functions of templates. Only files of formats/ include
// this.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/value.h"

namespace lockstep::formats::jinja {

class Interpreter;
struct Function;

struct FunctionCall {
  Interpreter& interpreter;
  const Function& function;
  const Value& subject;  // what a filter, test or method is applied to
  const Values& plain;
  const Members& named;

  // The argument of this place or name, or nullptr.
  const Value* argument(size_t place) const;
  // Throw Problem if it is missing or of another type.
  const Value& needed(size_t place) const;
  const std::string& text(size_t place) const;
  int64_t integer(size_t place, int64_t otherwise) const;
  // The subject as text.
  std::string subject_text() const { return text_of(subject); }
  Problem problem(const std::string& what) const;
};

struct Function {
  const char* name;
  std::vector<const char*> parameters;  // {"..."}: any
  Value (*run)(const FunctionCall& call);
};

// nullptr if there is none.
const Function* find_filter(std::string_view name);
const Function* find_test(std::string_view name);
const Function* find_global(std::string_view name);
// A method of texts, lists or maps.
const Function* find_method(const Value& subject, std::string_view name);
std::vector<std::string> filter_names();
std::vector<std::string> test_names();

// The parts of the table of filters.
const std::vector<Function>& text_filters();
const std::vector<Function>& list_filters();

// `value`.name, as in "a.name"; undefined if there is none. Throws Problem for an undefined value.
Value member_of(const Value& value, const std::string& name);
// The same for a path such as "a.b".
Value path_of(const Value& value, const std::string& path);

}  // namespace lockstep::formats::jinja
