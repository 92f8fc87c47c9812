// Expressions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/printable.h"
#include "formats/jinja/characters.h"
#include "formats/jinja/interpreter.h"

namespace lockstep::formats::jinja {
namespace {

using Kind = Expression::Kind;

// Steps of looking at all of a value.
size_t cost_of(const Value& value) { return value.text() ? value.weight() / 16 : value.weight(); }

void refuse_undefined(const Value& value) {
  if (const auto* missing = value.as<Undefined>())
    throw Problem(fmt::format("'{}' is undefined", printable(missing->name)));
}

Problem cannot_combine(const Value& a, const std::string& operation, const Value& b) {
  return Problem(fmt::format("{} {} {} is not possible", a.type(), operation, b.type()));
}

Value repeated(const std::string& text, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (times > 0 && text.size() > kMaxTextBytes / times)
    throw Problem(fmt::format("a text is longer than {} bytes", kMaxTextBytes));
  std::string out;
  for (size_t i = 0; i < times && !text.empty(); ++i) out += text;
  return Value(std::move(out));
}

// Rounds down, and the remainder has the sign of the divisor, as in Python.
Value integer_result(int64_t a, const std::string& operation, int64_t b) {
  int64_t result = 0;
  bool is_too_large = false;
  if (operation == "+") {
    is_too_large = __builtin_add_overflow(a, b, &result);
  } else if (operation == "-") {
    is_too_large = __builtin_sub_overflow(a, b, &result);
  } else if (operation == "*") {
    is_too_large = __builtin_mul_overflow(a, b, &result);
  } else {
    if (b == 0) throw Problem("division by 0");
    is_too_large = a == INT64_MIN && b == -1;
    if (!is_too_large) {
      const bool rounds = a % b != 0 && (a < 0) != (b < 0);
      result = operation == "//" ? a / b - (rounds ? 1 : 0) : a % b + (rounds ? b : 0);
    }
  }
  if (is_too_large) throw Problem("a number is too large");
  return Value(result);
}

Value real_result(double a, const std::string& operation, double b) {
  if (operation == "+") return Value(a + b);
  if (operation == "-") return Value(a - b);
  if (operation == "*") return Value(a * b);
  if (b == 0) throw Problem("division by 0");
  if (operation == "/") return Value(a / b);
  const auto whole = std::floor(a / b);
  return Value(operation == "//" ? whole : a - whole * b);
}

Value combined(const Value& a, const std::string& operation, const Value& b) {
  refuse_undefined(a);
  refuse_undefined(b);
  if (operation != "/" && a.is_integer() && b.is_integer())
    return integer_result(a.integer(), operation, b.integer());
  if (a.is_number() && b.is_number()) return real_result(a.number(), operation, b.number());
  if (operation == "+" && a.text() && b.text()) return Value(*a.text() + *b.text());
  if (operation == "*" && a.text() && b.is_integer()) return repeated(*a.text(), b.integer());
  if (operation == "*" && b.text() && a.is_integer()) return repeated(*b.text(), a.integer());
  if (operation == "+" && a.items() && b.items()) {
    auto all = *a.items();
    all.insert(all.end(), b.items()->begin(), b.items()->end());
    return Value::list(std::move(all));
  }
  throw cannot_combine(a, operation, b);
}

bool is_so(const Value& a, const std::string& operation, const Value& b) {
  if (operation == "==") return equal(a, b);
  if (operation == "!=") return !equal(a, b);
  if (operation == "in") return contains(b, a);
  if (operation == "not in") return !contains(b, a);
  refuse_undefined(a);
  refuse_undefined(b);
  const auto order = compare(a, b);
  if (operation == "<") return order < 0;
  if (operation == "<=") return order <= 0;
  return operation == ">" ? order > 0 : order >= 0;
}

// The indices of a slice of `size` items.
std::vector<size_t> slice_indices(int64_t size, const std::optional<int64_t>& begin,
                                  const std::optional<int64_t>& end, int64_t step) {
  if (step == 0) throw Problem("the step of a slice is 0");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto inside = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? std::max(at, -size - 1) + size : at, low, high);
  };
  auto at = begin ? inside(*begin) : (step > 0 ? low : high);
  const auto last = end ? inside(*end) : (step > 0 ? high : low);
  std::vector<size_t> indices;
  while (step > 0 ? at < last : at > last) {
    indices.push_back(static_cast<size_t>(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return indices;
}

}  // namespace

const Value* Interpreter::find(const std::string& name) const {
  for (const auto* scope = scope_; scope; scope = scope->outer)
    for (const auto& variable : scope->variables)
      if (variable.first == name) return &variable.second;
  return nullptr;
}

Value Interpreter::evaluate(const Expression& expression) {
  line_ = expression.line;
  charge(0);
  const auto part = [&](size_t i) { return evaluate(*expression.parts[i]); };
  switch (expression.kind) {
    case Kind::Literal: return expression.value;
    case Kind::Name: {
      if (const auto* found = find(expression.name)) return *found;
      const auto* global = find_global(expression.name);
      return global ? Value(Callable{.function = global}) : Value::undefined(expression.name);
    }
    case Kind::List: return list(expression);
    case Kind::Map: return map(expression);
    case Kind::Attribute: return member_of(part(0), expression.name);
    case Kind::Item: return item(expression);
    case Kind::Slice: return slice(expression);
    case Kind::Call: return call(expression);
    case Kind::Filter:
    case Kind::Test: return applied(expression);
    case Kind::Not: return Value(!part(0).is_true());
    case Kind::Negative: return combined(Value(int64_t{0}), "-", part(0));
    case Kind::And: {
      auto left = part(0);
      return left.is_true() ? part(1) : left;
    }
    case Kind::Or: {
      auto left = part(0);
      return left.is_true() ? left : part(1);
    }
    case Kind::Arithmetic: return arithmetic(expression);
    case Kind::Comparison: return comparison(expression);
    case Kind::Conditional:
      if (part(1).is_true()) return part(0);
      return expression.parts[2] ? part(2) : Value::undefined("value");
  }
  return {};
}

Value Interpreter::list(const Expression& expression) {
  Values items;
  for (const auto& part : expression.parts) items.push_back(evaluate(*part));
  return Value::list(std::move(items), expression.is_tuple);
}

Value Interpreter::map(const Expression& expression) {
  Members members;
  for (size_t i = 0; i < expression.parts.size(); i += 2) {
    const auto key = evaluate(*expression.parts[i]);
    if (!key.text()) throw Problem("keys of dicts must be texts");
    members.emplace_back(*key.text(), evaluate(*expression.parts[i + 1]));
  }
  return Value::map(std::move(members));
}

Value Interpreter::item(const Expression& expression) {
  const auto subject = evaluate(*expression.parts[0]), key = evaluate(*expression.parts[1]);
  refuse_undefined(subject);
  if (key.text()) return member_of(subject, *key.text());
  if (!key.is_integer() || (!subject.items() && !subject.text())) return Value::undefined("item");
  const auto size = static_cast<int64_t>(length_of(subject));
  const auto at = key.integer() < 0 ? key.integer() + size : key.integer();
  if (at < 0 || at >= size) return Value::undefined("item");
  if (subject.items()) return (*subject.items())[static_cast<size_t>(at)];
  charge(subject.weight() / 16);
  return Value(characters_of(*subject.text())[static_cast<size_t>(at)]);
}

Value Interpreter::slice(const Expression& expression) {
  const auto subject = evaluate(*expression.parts[0]);
  refuse_undefined(subject);
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!expression.parts[i + 1]) continue;
    const auto bound = evaluate(*expression.parts[i + 1]);
    if (!bound.is_integer() && !bound.is_none())
      throw Problem(fmt::format("a slice needs integers, got {}", bound.type()));
    if (bound.is_integer()) bounds[i] = bound.integer();
  }
  if (!subject.items() && !subject.text())
    throw Problem(fmt::format("{} has no slices", subject.type()));
  const auto all = iterate(subject);
  charge(all.size());
  Values chosen;
  for (const auto i :
       slice_indices(static_cast<int64_t>(all.size()), bounds[0], bounds[1], bounds[2].value_or(1)))
    chosen.push_back(all[i]);
  if (subject.items()) return Value::list(std::move(chosen), subject.is_tuple());
  std::string text;
  for (const auto& character : chosen) text += *character.text();
  return Value(std::move(text));
}

Values Interpreter::plain_arguments(const Expression& expression) {
  Values plain;
  for (size_t i = 1; i < expression.parts.size(); ++i)
    plain.push_back(evaluate(*expression.parts[i]));
  return plain;
}

Members Interpreter::named_arguments(const Expression& expression) {
  Members named;
  for (const auto& [name, value] : expression.named) named.emplace_back(name, evaluate(*value));
  return named;
}

Value Interpreter::call(const Expression& expression) {
  const auto& callee = *expression.parts[0];
  if (callee.kind == Kind::Attribute) {
    const auto subject = evaluate(*callee.parts[0]);
    if (const auto* method = find_method(subject, callee.name)) {
      const auto plain = plain_arguments(expression);
      return run(*method, subject, plain, named_arguments(expression));
    }
    refuse_undefined(subject);
    throw Problem(fmt::format("{} has no method '{}'", subject.type(), printable(callee.name)));
  }
  const auto function = evaluate(callee);
  const auto plain = plain_arguments(expression);
  const auto named = named_arguments(expression);
  if (const auto* callable = function.as<Callable>())
    return callable->macro ? call_macro(*callable->macro, plain, named)
                           : run(*callable->function, {}, plain, named);
  refuse_undefined(function);
  throw Problem(fmt::format("{} cannot be called", function.type()));
}

Value Interpreter::applied(const Expression& expression) {
  const auto subject = evaluate(*expression.parts[0]);
  const auto plain = plain_arguments(expression);
  return run(*expression.function, subject, plain, named_arguments(expression));
}

Value Interpreter::run(const Function& function, const Value& subject, const Values& plain,
                       const Members& named) {
  charge(cost_of(subject));
  const bool takes_all = !function.parameters.empty() && function.parameters[0][0] == '.';
  if (!takes_all && plain.size() > function.parameters.size())
    throw Problem(
        fmt::format("{} takes at most {} arguments", function.name, function.parameters.size()));
  for (const auto& [name, value] : named)
    if (!takes_all &&
        std::ranges::find(function.parameters, std::string_view(name)) == function.parameters.end())
      throw Problem(fmt::format("{} has no argument '{}', or it is not supported", function.name,
                                printable(name)));
  auto result = function.run({*this, function, subject, plain, named});
  charge(cost_of(result));
  return result;
}

Value Interpreter::arithmetic(const Expression& expression) {
  const auto a = evaluate(*expression.parts[0]), b = evaluate(*expression.parts[1]);
  if (expression.name == "~") return Value(text_of(a) + text_of(b));
  auto result = combined(a, expression.name, b);
  charge(cost_of(result));
  return result;
}

Value Interpreter::comparison(const Expression& expression) {
  auto left = evaluate(*expression.parts[0]);
  for (size_t i = 0; i < expression.names.size(); ++i) {
    auto right = evaluate(*expression.parts[i + 1]);
    charge(std::min(left.weight(), right.weight()) / 16);
    if (!is_so(left, expression.names[i], right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

}  // namespace lockstep::formats::jinja
