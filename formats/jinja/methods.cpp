// Methods of texts, lists and maps.
#include <fmt/format.h>

#include <algorithm>

#include "formats/jinja/characters.h"
#include "formats/jinja/functions.h"

namespace lockstep::formats::jinja {
namespace {

const std::string& self(const FunctionCall& call) { return *call.subject.text(); }

template <Ends ends>
Value stripped(const FunctionCall& call) {
  const auto* set = call.argument(0);
  return set && !set->is_none() ? Value(strip(self(call), ends, call.text(0)))
                                : Value(strip(self(call), ends));
}

// As str.split() without a separator: at white space, without empty parts.
Value words_of(std::string_view text, int64_t splits) {
  Values words;
  for (text = strip(text, Ends::Left); !text.empty(); text = strip(text, Ends::Left)) {
    if (splits-- == 0) {
      words.emplace_back(strip(text, Ends::Right));
      break;
    }
    size_t end = 0;
    for (const auto character : characters_of(text)) {
      if (is_blank(character)) break;
      end += character.size();
    }
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return Value::list(std::move(words));
}

Value split(const FunctionCall& call) {
  const auto* separator = call.argument(0);
  auto splits = call.integer(1, -1);
  if (!separator || separator->is_none()) return words_of(self(call), splits);
  const auto& mark = call.text(0);
  if (mark.empty()) throw call.problem("the separator is empty");
  Values parts;
  size_t begin = 0;
  while (splits-- != 0) {
    const auto end = self(call).find(mark, begin);
    if (end == std::string::npos) break;
    parts.emplace_back(self(call).substr(begin, end - begin));
    begin = end + mark.size();
  }
  parts.emplace_back(self(call).substr(begin));
  return Value::list(std::move(parts));
}

Value split_from_right(const FunctionCall& call) {
  const auto& mark = call.text(0);
  if (mark.empty()) throw call.problem("the separator is empty");
  Values parts;
  std::string_view rest = self(call);
  for (auto splits = call.integer(1, -1); splits != 0; --splits) {
    const auto at = rest.rfind(mark);
    if (at == rest.npos) break;
    parts.emplace_back(rest.substr(at + mark.size()));
    rest = rest.substr(0, at);
  }
  parts.emplace_back(rest);
  std::ranges::reverse(parts);
  return Value::list(std::move(parts));
}

Value lines_of(const FunctionCall& call) {
  Values lines;
  std::string_view rest = self(call);
  while (!rest.empty()) {
    const auto end = std::min(rest.find_first_of("\r\n"), rest.size());
    lines.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end);
    if (!rest.empty()) rest.remove_prefix(rest.starts_with("\r\n") ? 2 : 1);
  }
  return Value::list(std::move(lines));
}

// startswith() and endswith(), of one text or several.
template <bool at_start>
Value has_end(const FunctionCall& call) {
  const auto matches = [&](const Value& end) {
    if (!end.text()) throw call.problem(fmt::format("expected a text, got {}", end.type()));
    return at_start ? self(call).starts_with(*end.text()) : self(call).ends_with(*end.text());
  };
  const auto& given = call.needed(0);
  return Value(given.items() ? std::ranges::any_of(*given.items(), matches) : matches(given));
}

Value without_prefix(const FunctionCall& call) {
  const auto& prefix = call.text(0);
  return self(call).starts_with(prefix) ? Value(self(call).substr(prefix.size())) : call.subject;
}

Value without_suffix(const FunctionCall& call) {
  const auto& suffix = call.text(0);
  return self(call).ends_with(suffix)
             ? Value(self(call).substr(0, self(call).size() - suffix.size()))
             : call.subject;
}

Value position(std::string_view text, size_t found) {
  if (found == text.npos) return Value(int64_t{-1});
  return Value(static_cast<int64_t>(count_characters(text.substr(0, found))));
}

Value occurrences(const FunctionCall& call) {
  const auto& part = call.text(0);
  if (part.empty()) throw call.problem("the text to count is empty");
  int64_t count = 0;
  for (auto at = self(call).find(part); at != std::string::npos;
       at = self(call).find(part, at + part.size()))
    ++count;
  return Value(count);
}

Value all_digits(const FunctionCall& call) {
  return Value(!self(call).empty() && std::ranges::all_of(self(call), [](unsigned char c) {
    return std::isdigit(c) != 0;
  }));
}

Value all_blank(const FunctionCall& call) {
  return Value(!self(call).empty() && strip(self(call)).empty());
}

// The filter of the same name, applied to the subject.
template <const char* const& name>
Value filter_named(const FunctionCall& call) {
  return find_filter(name)->run(call);
}
constexpr const char* kUpper = "upper";
constexpr const char* kLower = "lower";
constexpr const char* kCapitalize = "capitalize";
constexpr const char* kReplace = "replace";

Value join_items(const FunctionCall& call) {
  std::string out;
  bool is_first = true;
  for (const auto& item : iterate(call.needed(0))) {
    if (!item.text()) throw call.problem(fmt::format("expected texts, got {}", item.type()));
    out += (is_first ? std::string() : self(call)) + *item.text();
    is_first = false;
    if (out.size() > kMaxTextBytes) throw call.problem("the text is too long");
  }
  return Value(out);
}

const std::vector<Function>& text_methods() {
  static const std::vector<Function> table = {
      {"capitalize", {}, filter_named<kCapitalize>},
      {"count", {"sub"}, occurrences},
      {"endswith", {"suffix"}, has_end<false>},
      {"find",
       {"sub"},
       [](const FunctionCall& c) { return position(self(c), self(c).find(c.text(0))); }},
      {"isdigit", {}, all_digits},
      {"isspace", {}, all_blank},
      {"join", {"iterable"}, join_items},
      {"lower", {}, filter_named<kLower>},
      {"lstrip", {"chars"}, stripped<Ends::Left>},
      {"removeprefix", {"prefix"}, without_prefix},
      {"removesuffix", {"suffix"}, without_suffix},
      {"replace", {"old", "new", "count"}, filter_named<kReplace>},
      {"rfind",
       {"sub"},
       [](const FunctionCall& c) { return position(self(c), self(c).rfind(c.text(0))); }},
      {"rsplit", {"sep", "maxsplit"}, split_from_right},
      {"rstrip", {"chars"}, stripped<Ends::Right>},
      {"split", {"sep", "maxsplit"}, split},
      {"splitlines", {}, lines_of},
      {"startswith", {"prefix"}, has_end<true>},
      {"strip", {"chars"}, stripped<Ends::Both>},
      {"title",
       {},
       [](const FunctionCall& c) { return Value(with_case(self(c), LetterCase::Title)); }},
      {"upper", {}, filter_named<kUpper>},
  };
  return table;
}

Value get(const FunctionCall& call) {
  const auto& key = call.needed(0);
  const auto* found = key.text() ? call.subject.find(*key.text()) : nullptr;
  if (found) return *found;
  return call.argument(1) ? *call.argument(1) : Value::none();
}

Value values_of(const FunctionCall& call) {
  Values values;
  for (const auto& member : *call.subject.members()) values.push_back(member.second);
  return Value::list(std::move(values));
}

const std::vector<Function>& map_methods() {
  static const std::vector<Function> table = {
      {"get", {"key", "default"}, get},
      {"items", {}, [](const FunctionCall& c) { return find_filter("items")->run(c); }},
      {"keys", {}, [](const FunctionCall& c) { return Value::list(iterate(c.subject)); }},
      {"values", {}, values_of},
  };
  return table;
}

}  // namespace

const Function* find_method(const Value& subject, std::string_view name) {
  const bool is_map = subject.members() && !subject.namespace_members();
  if (!subject.text() && !is_map) return nullptr;
  const auto& table = subject.text() ? text_methods() : map_methods();
  const auto found =
      std::ranges::find_if(table, [&](const auto& function) { return function.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace lockstep::formats::jinja
