// Filters of lists and maps.
#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "formats/jinja/characters.h"
#include "formats/jinja/functions.h"
#include "formats/jinja/interpreter.h"

namespace lockstep::formats::jinja {
namespace {

bool is_set(const FunctionCall& call, size_t place) {
  return call.argument(place) && call.argument(place)->is_true();
}

// What filters compare: unless they are case sensitive, texts in lower case.
Value compared(const Value& value, bool is_case_sensitive) {
  if (is_case_sensitive || !value.text()) return value;
  return Value(with_case(*value.text(), LetterCase::Lower));
}

// The same of `item`, or of its attribute if there is an argument with its name.
Value compared(const FunctionCall& call, const Value& item, size_t case_sensitive,
               size_t attribute) {
  return compared(call.argument(attribute) ? path_of(item, call.text(attribute)) : item,
                  is_set(call, case_sensitive));
}

Value length(const FunctionCall& call) {
  return Value(static_cast<int64_t>(length_of(call.subject)));
}

Value join(const FunctionCall& call) {
  const auto separator = call.argument(0) ? text_of(*call.argument(0)) : std::string();
  const auto* attribute = call.argument(1);
  std::string out;
  bool is_first = true;
  for (const auto& item : iterate(call.subject)) {
    if (!is_first) out += separator;
    is_first = false;
    out += text_of(attribute ? path_of(item, call.text(1)) : item);
    if (out.size() > kMaxTextBytes) throw call.problem("the text is too long");
  }
  return Value(out);
}

Value first(const FunctionCall& call) {
  const auto items = iterate(call.subject);
  return items.empty() ? Value::undefined("first") : items.front();
}

Value last(const FunctionCall& call) {
  const auto items = iterate(call.subject);
  return items.empty() ? Value::undefined("last") : items.back();
}

Value pairs_of(const Members& members) {
  Values pairs;
  for (const auto& [key, value] : members) pairs.push_back(Value::list({Value(key), value}, true));
  return Value::list(std::move(pairs));
}

Value items(const FunctionCall& call) {
  if (call.subject.is_undefined()) return Value::list({});
  if (!call.subject.members()) throw call.problem("expected a dict");
  return pairs_of(*call.subject.members());
}

Value sorted_items(const FunctionCall& call) {
  if (!call.subject.members()) throw call.problem("expected a dict");
  const auto by = call.argument(1) ? call.text(1) : std::string("key");
  if (by != "key" && by != "value") throw call.problem("by is 'key' or 'value'");
  const auto key = [&](const auto& member) {
    return compared(by == "key" ? Value(member.first) : member.second, is_set(call, 0));
  };
  const bool is_reverse = is_set(call, 2);
  auto members = *call.subject.members();
  std::ranges::stable_sort(members, [&](const auto& a, const auto& b) {
    const auto order = compare(key(a), key(b));
    return is_reverse ? order > 0 : order < 0;
  });
  return pairs_of(members);
}

Value reverse(const FunctionCall& call) {
  if (call.subject.text()) {
    std::string out;
    for (const auto character : characters_of(*call.subject.text()))
      out.insert(0, character);  // texts to reverse are short
    return Value(out);
  }
  auto all = iterate(call.subject);
  std::ranges::reverse(all);
  return Value::list(std::move(all));
}

// The function of a filter or test that an argument names, applied to `item` with the arguments
// after it.
Value applied(const FunctionCall& call, const Value& item, size_t place, bool is_test) {
  const auto& name = call.text(place);
  const auto* function = is_test ? find_test(name) : find_filter(name);
  if (!function) throw call.problem(fmt::format("'{}' is not supported", printable(name)));
  const auto rest = call.plain.begin() + static_cast<ptrdiff_t>(place) + 1;
  return call.interpreter.run(*function, item, {rest, call.plain.end()}, {});
}

Value map(const FunctionCall& call) {
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;
  for (const auto& [name, value] : call.named) {
    if (name == "attribute") attribute = &value;
    if (name == "default") otherwise = &value;
  }
  if (attribute && !attribute->text()) throw call.problem("attribute must be a text");
  Values out;
  for (const auto& item : iterate(call.subject)) {
    auto value = attribute ? path_of(item, *attribute->text()) : applied(call, item, 0, false);
    out.push_back(attribute && value.is_undefined() && otherwise ? *otherwise : std::move(value));
  }
  return Value::list(std::move(out));
}

// select, reject, selectattr and rejectattr.
template <bool is_wanted, bool has_attribute>
Value chosen(const FunctionCall& call) {
  Values out;
  const size_t place = has_attribute ? 1 : 0;
  for (const auto& item : iterate(call.subject)) {
    const auto value = has_attribute ? path_of(item, call.text(0)) : item;
    const bool is_true =
        (call.plain.size() > place ? applied(call, value, place, true) : value).is_true();
    if (is_true == is_wanted) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value unique(const FunctionCall& call) {
  Values out, keys;
  for (const auto& item : iterate(call.subject)) {
    call.interpreter.charge(keys.size());
    auto key = compared(call, item, 0, 1);
    if (std::ranges::any_of(keys, [&](const auto& other) { return equal(key, other); })) continue;
    out.push_back(item);
    keys.push_back(std::move(key));
  }
  return Value::list(std::move(out));
}

Value sort(const FunctionCall& call) {
  auto all = iterate(call.subject);
  const bool is_reverse = is_set(call, 0);
  // compare() throws in the middle of a sort, which is safe for a local list.
  std::ranges::stable_sort(all, [&](const Value& a, const Value& b) {
    const auto order = compare(compared(call, a, 1, 2), compared(call, b, 1, 2));
    return is_reverse ? order > 0 : order < 0;
  });
  return Value::list(std::move(all));
}

template <int sign>
Value extreme(const FunctionCall& call) {
  const auto all = iterate(call.subject);
  if (all.empty()) return Value::undefined("item");
  const auto* best = &all.front();
  for (const auto& item : all)
    if (compare(compared(call, item, 0, 1), compared(call, *best, 0, 1)) * sign > 0) best = &item;
  return *best;
}

Value sum(const FunctionCall& call) {
  double total = 0;
  bool is_whole = true;
  for (const auto& item : iterate(call.subject)) {
    const auto value = call.argument(0) ? path_of(item, call.text(0)) : item;
    if (!value.is_number()) throw call.problem(fmt::format("{} is not a number", value.type()));
    is_whole = is_whole && value.is_integer();
    total += value.number();
  }
  if (is_whole && std::abs(total) < 9e15) return Value(static_cast<int64_t>(total));
  return Value(total);
}

}  // namespace

const std::vector<Function>& list_filters() {
  static const std::vector<Function> table = {
      {"count", {}, length},
      {"dictsort", {"case_sensitive", "by", "reverse"}, sorted_items},
      {"first", {}, first},
      {"items", {}, items},
      {"join", {"d", "attribute"}, join},
      {"last", {}, last},
      {"length", {}, length},
      {"list", {}, [](const FunctionCall& call) { return Value::list(iterate(call.subject)); }},
      {"map", {"..."}, map},
      {"max", {"case_sensitive", "attribute"}, extreme<1>},
      {"min", {"case_sensitive", "attribute"}, extreme<-1>},
      {"reject", {"..."}, chosen<false, false>},
      {"rejectattr", {"..."}, chosen<false, true>},
      {"reverse", {}, reverse},
      {"select", {"..."}, chosen<true, false>},
      {"selectattr", {"..."}, chosen<true, true>},
      {"sort", {"reverse", "case_sensitive", "attribute"}, sort},
      {"sum", {"attribute"}, sum},
      {"unique", {"case_sensitive", "attribute"}, unique},
  };
  return table;
}

}  // namespace lockstep::formats::jinja
