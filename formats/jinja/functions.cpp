#include "formats/jinja/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/printable.h"
#include "formats/jinja/interpreter.h"

namespace lockstep::formats::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;

const Function* find_in(const std::vector<Function>& table, std::string_view name) {
  const auto found =
      std::ranges::find_if(table, [&](const auto& function) { return function.name == name; });
  return found == table.end() ? nullptr : &*found;
}

Value range_of(const FunctionCall& call) {
  const auto first = call.integer(0, 0);
  const bool has_end = call.argument(1);
  const auto begin = has_end ? first : 0, end = has_end ? call.integer(1, 0) : first;
  const auto step = call.integer(2, 1);
  if (step == 0) throw call.problem("its step is 0");
  Values items;
  for (auto i = begin; step > 0 ? i < end : i > end;) {
    items.emplace_back(i);
    if (items.size() > kMaxRange)
      throw call.problem(fmt::format("it has more than {} items", kMaxRange));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::list(std::move(items));
}

Value raise(const FunctionCall& call) { throw Problem(printable(text_of(call.needed(0)), 300)); }

Value date_now(const FunctionCall& call) { return Value(call.interpreter.date_text(call.text(0))); }

const std::vector<Function>& globals() {
  static const std::vector<Function> table = {
      {"range", {"start", "stop", "step"}, range_of},
      {"namespace",
       {"..."},
       [](const FunctionCall& call) {
         if (!call.plain.empty()) throw call.problem("only named arguments are supported");
         return Value::make_namespace(call.named);
       }},
      {"dict",
       {"..."},
       [](const FunctionCall& call) {
         if (!call.plain.empty()) throw call.problem("only named arguments are supported");
         return Value::map(call.named);
       }},
      {"raise_exception", {"message"}, raise},
      {"strftime_now", {"format"}, date_now},
  };
  return table;
}

}  // namespace

const Value* FunctionCall::argument(size_t place) const {
  if (place < plain.size()) return &plain[place];
  if (place >= function.parameters.size()) return nullptr;
  const auto found = std::ranges::find_if(
      named, [&](const auto& member) { return member.first == function.parameters[place]; });
  return found == named.end() ? nullptr : &found->second;
}

Problem FunctionCall::problem(const std::string& what) const {
  return Problem(fmt::format("{}: {}", function.name, what));
}

const Value& FunctionCall::needed(size_t place) const {
  const auto* value = argument(place);
  if (!value) throw problem("an argument is missing");
  return *value;
}

const std::string& FunctionCall::text(size_t place) const {
  const auto& value = needed(place);
  if (!value.text()) throw problem(fmt::format("expected a text, got {}", value.type()));
  return *value.text();
}

int64_t FunctionCall::integer(size_t place, int64_t otherwise) const {
  const auto* value = argument(place);
  if (!value || value->is_none()) return otherwise;
  if (!value->is_integer())
    throw problem(fmt::format("expected an integer, got {}", value->type()));
  return value->integer();
}

const Function* find_filter(std::string_view name) {
  const auto* found = find_in(text_filters(), name);
  return found ? found : find_in(list_filters(), name);
}

const Function* find_global(std::string_view name) { return find_in(globals(), name); }

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const auto* table : {&text_filters(), &list_filters()})
    for (const auto& function : *table) names.emplace_back(function.name);
  return names;
}

Value member_of(const Value& value, const std::string& name) {
  if (const auto* missing = value.as<Undefined>())
    throw Problem(fmt::format("'{}' is undefined", printable(missing->name)));
  const auto* member = value.find(name);
  return member ? *member : Value::undefined(name);
}

Value path_of(const Value& value, const std::string& path) {
  auto at = value;
  for (size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('.', begin), path.size());
    at = member_of(at, path.substr(begin, end - begin));
    begin = end + 1;
  }
  return at;
}

}  // namespace lockstep::formats::jinja
