// Filters of single values.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "formats/jinja/characters.h"
#include "formats/jinja/functions.h"

namespace lockstep::formats::jinja {
namespace {

Value trim(const FunctionCall& call) {
  const auto* set = call.argument(0);
  const auto text = call.subject_text();
  return set && !set->is_none() ? Value(strip(text, Ends::Both, call.text(0))) : Value(strip(text));
}

Value to_json(const FunctionCall& call) {
  const auto* ascii = call.argument(0);
  if (ascii && ascii->is_true()) throw call.problem("ensure_ascii is not supported");
  const auto indent = call.integer(1, -1);
  if (indent > 16) throw call.problem("indent is at most 16");
  return Value(json_of(call.subject, indent));
}

template <LetterCase letter_case>
Value change_case(const FunctionCall& call) {
  return Value(with_case(call.subject_text(), letter_case));
}

Value default_value(const FunctionCall& call) {
  const auto* as_false = call.argument(1);
  const bool is_missing =
      call.subject.is_undefined() || (as_false && as_false->is_true() && !call.subject.is_true());
  if (!is_missing) return call.subject;
  return call.argument(0) ? *call.argument(0) : Value("");
}

Value to_float(const FunctionCall& call) {
  if (call.subject.is_number()) return Value(call.subject.number());
  const auto text = std::string(strip(call.subject_text()));
  double number = 0;
  const auto ended = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = ended.ec == std::errc() && ended.ptr == text.data() + text.size();
  if (is_whole) return Value(number);
  return call.argument(0) ? *call.argument(0) : Value(0.0);
}

Value to_int(const FunctionCall& call) {
  if (call.subject.is_integer()) return Value(call.subject.integer());
  const auto number = to_float(call);
  if (!number.is_number() || !(std::abs(number.number()) < 9e18))
    return call.argument(0) ? *call.argument(0) : Value(int64_t{0});
  return Value(static_cast<int64_t>(number.number()));
}

Value round_number(const FunctionCall& call) {
  const auto digits = call.integer(0, 0);
  if (!call.subject.is_number() || digits < 0 || digits > 15)
    throw call.problem("expected a number, and 0 to 15 digits");
  return Value(std::stod(fmt::format("{:.{}f}", call.subject.number(), digits)));
}

Value absolute(const FunctionCall& call) {
  if (call.subject.is_integer() && call.subject.integer() != INT64_MIN)
    return Value(std::abs(call.subject.integer()));
  if (!call.subject.is_number()) throw call.problem("expected a number");
  return Value(std::abs(call.subject.number()));
}

Value replace(const FunctionCall& call) {
  const auto text = call.subject_text();
  const auto &from = call.text(0), &to = call.text(1);
  if (from.empty()) throw call.problem("the text to replace is empty");
  std::string out;
  size_t at = 0;
  for (auto left = call.integer(2, INT64_MAX); left > 0; --left) {
    const auto found = text.find(from, at);
    if (found == text.npos) break;
    out.append(text, at, found - at).append(to);
    if (out.size() > kMaxTextBytes) throw call.problem("the text is too long");
    at = found + from.size();
  }
  return Value(out.append(text, at));
}

Value indent(const FunctionCall& call) {
  const auto* width = call.argument(0);
  const auto blanks = width && width->text() ? *width->text() : [&] {
    const auto count = call.integer(0, 4);
    if (count < 0 || count > 1000) throw call.problem("width is from 0 to 1000");
    return std::string(static_cast<size_t>(count), ' ');
  }();
  const auto flag = [&](size_t place) {
    return call.argument(place) && call.argument(place)->is_true();
  };
  const auto text = call.subject_text();
  std::string out = flag(1) ? blanks : "";
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    const bool is_empty_line = i + 1 < text.size() && text[i + 1] == '\n';
    if (text[i] == '\n' && i + 1 < text.size() && (flag(2) || !is_empty_line)) out += blanks;
    if (out.size() > kMaxTextBytes) throw call.problem("the text is too long");
  }
  return Value(out);
}

}  // namespace

const std::vector<Function>& text_filters() {
  static const std::vector<Function> table = {
      {"abs", {}, absolute},
      {"capitalize", {}, change_case<LetterCase::Capitalized>},
      {"d", {"default_value", "boolean"}, default_value},
      {"default", {"default_value", "boolean"}, default_value},
      {"float", {"default"}, to_float},
      {"indent", {"width", "first", "blank"}, indent},
      {"int", {"default"}, to_int},
      {"lower", {}, change_case<LetterCase::Lower>},
      {"replace", {"old", "new", "count"}, replace},
      {"round", {"precision"}, round_number},
      {"safe", {}, [](const FunctionCall& call) { return call.subject; }},
      {"string", {}, [](const FunctionCall& call) { return Value(call.subject_text()); }},
      {"title", {}, change_case<LetterCase::Words>},
      {"tojson", {"ensure_ascii", "indent"}, to_json},
      {"trim", {"chars"}, trim},
      {"upper", {}, change_case<LetterCase::Upper>},
  };
  return table;
}

}  // namespace lockstep::formats::jinja
