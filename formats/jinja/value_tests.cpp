// Tests: what follows "is" in a template.
#include <fmt/format.h>

#include <algorithm>

#include "formats/jinja/functions.h"

namespace lockstep::formats::jinja {
namespace {

bool is_iterable(const Value& value) {
  return value.text() || value.items() || value.is_undefined() ||
         (value.members() && !value.namespace_members());
}

int64_t integer_of(const FunctionCall& call) {
  if (!call.subject.is_integer())
    throw call.problem(fmt::format("expected an integer, got {}", call.subject.type()));
  return call.subject.integer();
}

template <int sign, bool or_equal>
Value ordered(const FunctionCall& call) {
  const auto order = compare(call.subject, call.needed(0)) * sign;
  return Value(order > 0 || (or_equal && order == 0));
}

Value is_equal(const FunctionCall& call) { return Value(equal(call.subject, call.needed(0))); }
Value is_different(const FunctionCall& call) { return Value(!equal(call.subject, call.needed(0))); }

template <bool upper>
Value has_case(const FunctionCall& call) {
  const auto text = call.subject_text();
  const auto is_other = [](unsigned char c) { return upper ? std::islower(c) : std::isupper(c); };
  const auto is_same = [](unsigned char c) { return upper ? std::isupper(c) : std::islower(c); };
  return Value(std::ranges::none_of(text, is_other) && std::ranges::any_of(text, is_same));
}

Value is_divisible(const FunctionCall& call) {
  const auto divisor = call.integer(0, 0);
  if (divisor == 0) throw call.problem("division by 0");
  return Value(divisor == -1 || integer_of(call) % divisor == 0);
}

const std::vector<Function>& value_tests() {
  static const std::vector<Function> table = {
      {"!=", {"other"}, is_different},
      {"<", {"other"}, ordered<-1, false>},
      {"<=", {"other"}, ordered<-1, true>},
      {"==", {"other"}, is_equal},
      {">", {"other"}, ordered<1, false>},
      {">=", {"other"}, ordered<1, true>},
      {"boolean", {}, [](const FunctionCall& c) { return Value(c.subject.as<bool>() != nullptr); }},
      {"defined", {}, [](const FunctionCall& c) { return Value(!c.subject.is_undefined()); }},
      {"divisibleby", {"num"}, is_divisible},
      {"eq", {"other"}, is_equal},
      {"equalto", {"other"}, is_equal},
      {"even", {}, [](const FunctionCall& c) { return Value(integer_of(c) % 2 == 0); }},
      {"false",
       {},
       [](const FunctionCall& c) { return Value(c.subject.as<bool>() && !c.subject.is_true()); }},
      {"float", {}, [](const FunctionCall& c) { return Value(c.subject.as<double>() != nullptr); }},
      {"ge", {"other"}, ordered<1, true>},
      {"gt", {"other"}, ordered<1, false>},
      {"in",
       {"seq"},
       [](const FunctionCall& c) { return Value(contains(c.needed(0), c.subject)); }},
      {"integer",
       {},
       [](const FunctionCall& c) { return Value(c.subject.as<int64_t>() != nullptr); }},
      {"iterable", {}, [](const FunctionCall& c) { return Value(is_iterable(c.subject)); }},
      {"le", {"other"}, ordered<-1, true>},
      {"lower", {}, has_case<false>},
      {"lt", {"other"}, ordered<-1, false>},
      {"mapping",
       {},
       [](const FunctionCall& c) {
         return Value(c.subject.members() && !c.subject.namespace_members());
       }},
      {"ne", {"other"}, is_different},
      {"none", {}, [](const FunctionCall& c) { return Value(c.subject.is_none()); }},
      {"number", {}, [](const FunctionCall& c) { return Value(c.subject.is_number()); }},
      {"odd", {}, [](const FunctionCall& c) { return Value(integer_of(c) % 2 != 0); }},
      {"sequence", {}, [](const FunctionCall& c) { return Value(is_iterable(c.subject)); }},
      {"string", {}, [](const FunctionCall& c) { return Value(c.subject.text() != nullptr); }},
      {"true",
       {},
       [](const FunctionCall& c) { return Value(c.subject.as<bool>() && c.subject.is_true()); }},
      {"undefined", {}, [](const FunctionCall& c) { return Value(c.subject.is_undefined()); }},
      {"upper", {}, has_case<true>},
  };
  return table;
}

}  // namespace

const Function* find_test(std::string_view name) {
  const auto& table = value_tests();
  const auto found =
      std::ranges::find_if(table, [&](const auto& function) { return function.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::string> test_names() {
  std::vector<std::string> names;
  for (const auto& function : value_tests()) names.emplace_back(function.name);
  return names;
}

}  // namespace lockstep::formats::jinja
