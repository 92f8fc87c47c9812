// Expressions.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "formats/jinja/functions.h"
#include "formats/jinja/parser.h"

namespace lockstep::formats::jinja {
namespace {

using Kind = Expression::Kind;

constexpr size_t kMaxTreeDepth = 400;

// Names with a special meaning, which do not begin the argument of a test.
bool is_keyword(std::string_view name) {
  return name == "else" || name == "or" || name == "and" || name == "is" || name == "if" ||
         name == "in" || name == "not";
}

}  // namespace

ExpressionPointer Parser::make(Kind kind) const {
  return std::make_unique<Expression>(Expression{.kind = kind, .line = token().line});
}

void Parser::add(Expression& parent, ExpressionPointer child) const {
  if (child) parent.depth = std::max(parent.depth, child->depth + 1);
  if (parent.depth > kMaxTreeDepth) throw problem("the expression is too long");
  parent.parts.push_back(std::move(child));
}

ExpressionPointer Parser::tuple() {
  auto first = expression();
  if (!is_operator(",")) return first;
  auto list = make(Kind::List);
  list->is_tuple = true;
  add(*list, std::move(first));
  while (skip_operator(",")) {
    if (is_operator(")") || token().kind == Token::Kind::BlockEnd ||
        token().kind == Token::Kind::OutputEnd)
      break;
    add(*list, expression());
  }
  return list;
}

ExpressionPointer Parser::expression() {
  const Nesting nesting(*this);
  auto value = disjunction();
  while (is_name("if")) {
    auto choice = make(Kind::Conditional);
    ++at_;
    add(*choice, std::move(value));
    add(*choice, disjunction());
    add(*choice, skip_name("else") ? expression() : nullptr);
    value = std::move(choice);
  }
  return value;
}

ExpressionPointer Parser::binary(ExpressionPointer left, ExpressionPointer (Parser::*next)()) {
  const Nesting nesting(*this);
  auto both = make(Kind::Arithmetic);
  both->name = tokens_[at_++].text;
  add(*both, std::move(left));
  add(*both, (this->*next)());
  return both;
}

ExpressionPointer Parser::disjunction() {
  auto left = conjunction();
  while (is_name("or")) {
    left = binary(std::move(left), &Parser::conjunction);
    left->kind = Kind::Or;
  }
  return left;
}

ExpressionPointer Parser::conjunction() {
  auto left = negation();
  while (is_name("and")) {
    left = binary(std::move(left), &Parser::negation);
    left->kind = Kind::And;
  }
  return left;
}

ExpressionPointer Parser::negation() {
  if (!is_name("not")) return comparison();
  const Nesting nesting(*this);
  auto value = make(Kind::Not);
  ++at_;
  add(*value, negation());
  return value;
}

ExpressionPointer Parser::comparison() {
  auto first = sum();
  ExpressionPointer all;
  while (true) {
    std::string operation;
    if (token().kind == Token::Kind::Operator &&
        (token().text == "==" || token().text == "!=" || token().text == "<" ||
         token().text == "<=" || token().text == ">" || token().text == ">=")) {
      operation = tokens_[at_++].text;
    } else if (skip_name("in")) {
      operation = "in";
    } else if (is_name("not") && tokens_[at_ + 1].kind == Token::Kind::Name &&
               tokens_[at_ + 1].text == "in") {
      at_ += 2;
      operation = "not in";
    } else {
      return all ? std::move(all) : std::move(first);
    }
    if (!all) {
      all = make(Kind::Comparison);
      add(*all, std::move(first));
    }
    all->names.push_back(operation);
    add(*all, sum());
  }
}

ExpressionPointer Parser::sum() {
  auto left = concatenation();
  while (is_operator("+") || is_operator("-")) {
    left = binary(std::move(left), &Parser::concatenation);
  }
  return left;
}

ExpressionPointer Parser::concatenation() {
  auto left = product();
  while (is_operator("~")) {
    left = binary(std::move(left), &Parser::product);
  }
  return left;
}

ExpressionPointer Parser::product() {
  auto left = power();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%"))
    left = binary(std::move(left), &Parser::power);
  return left;
}

ExpressionPointer Parser::power() {
  auto left = unary(true);
  if (is_operator("**")) throw problem("'**' is not supported");
  return left;
}

ExpressionPointer Parser::unary(bool with_filters) {
  const Nesting nesting(*this);
  ExpressionPointer value;
  if (is_operator("-") || is_operator("+")) {
    value = make(Kind::Negative);
    const bool is_negative = tokens_[at_++].text == "-";
    auto part = unary(false);
    if (is_negative)
      add(*value, std::move(part));
    else
      value = std::move(part);
  } else {
    value = primary();
  }
  value = postfixed(std::move(value));
  return with_filters ? filtered(std::move(value)) : std::move(value);
}

ExpressionPointer Parser::primary() {
  const Nesting nesting(*this);
  switch (token().kind) {
    case Token::Kind::Name: return name_or_constant();
    case Token::Kind::Integer:
    case Token::Kind::Float: return number();
    case Token::Kind::String: {
      auto value = make(Kind::Literal);
      std::string text;
      while (token().kind == Token::Kind::String) text += tokens_[at_++].text;
      value->value = Value(std::move(text));
      return value;
    }
    default: break;
  }
  if (is_operator("[")) return list();
  if (is_operator("{")) return map();
  if (!skip_operator("(")) throw unexpected("a value");
  if (skip_operator(")")) {
    auto empty = make(Kind::List);
    empty->is_tuple = true;
    return empty;
  }
  auto value = tuple();
  expect_operator(")");
  return value;
}

ExpressionPointer Parser::name_or_constant() {
  auto value = make(Kind::Literal);
  const auto name = identifier();
  if (name == "true" || name == "True") {
    value->value = Value(true);
  } else if (name == "false" || name == "False") {
    value->value = Value(false);
  } else if (name == "none" || name == "None") {
    value->value = Value::none();
  } else {
    if (is_keyword(name)) {
      --at_;
      throw unexpected("a value");
    }
    value->kind = Kind::Name;
    value->name = name;
    loop_reads_ += name == "loop";
    syntax_.uses_date = syntax_.uses_date || name == "strftime_now";
  }
  return value;
}

ExpressionPointer Parser::number() {
  auto value = make(Kind::Literal);
  const auto& text = token().text;
  const auto* end = text.data() + text.size();
  if (token().kind == Token::Kind::Integer) {
    int64_t integer = 0;
    if (std::from_chars(text.data(), end, integer).ec != std::errc())
      throw problem("a number is too large");
    value->value = Value(integer);
  } else {
    double real = 0;
    if (std::from_chars(text.data(), end, real).ec != std::errc())
      throw problem("a number is too large");
    value->value = Value(real);
  }
  ++at_;
  return value;
}

ExpressionPointer Parser::list() {
  auto value = make(Kind::List);
  ++at_;
  while (!skip_operator("]")) {
    if (!value->parts.empty()) expect_operator(",");
    if (skip_operator("]")) break;
    add(*value, expression());
  }
  return value;
}

ExpressionPointer Parser::map() {
  auto value = make(Kind::Map);
  ++at_;
  while (!skip_operator("}")) {
    if (!value->parts.empty()) expect_operator(",");
    if (skip_operator("}")) break;
    add(*value, expression());
    expect_operator(":");
    add(*value, expression());
  }
  return value;
}

ExpressionPointer Parser::postfixed(ExpressionPointer subject) {
  while (true) {
    if (is_operator(".")) {
      auto value = make(Kind::Attribute);
      ++at_;
      value->name = identifier();
      add(*value, std::move(subject));
      subject = std::move(value);
    } else if (is_operator("[")) {
      subject = subscript(std::move(subject));
    } else if (is_operator("(")) {
      auto call = make(Kind::Call);
      add(*call, std::move(subject));
      arguments(*call);
      subject = std::move(call);
    } else {
      return subject;
    }
  }
}

ExpressionPointer Parser::filtered(ExpressionPointer subject) {
  while (true) {
    if (is_operator("|"))
      subject = filter(std::move(subject));
    else if (is_name("is"))
      subject = test(std::move(subject));
    else
      return subject;
  }
}

// subject[i], or subject[begin:end:step]
ExpressionPointer Parser::subscript(ExpressionPointer subject) {
  auto value = make(Kind::Item);
  ++at_;
  add(*value, std::move(subject));
  while (true) {
    const bool is_empty = is_operator(":") || is_operator("]");
    add(*value, is_empty ? nullptr : expression());
    if (!skip_operator(":")) break;
    value->kind = Kind::Slice;
    if (value->parts.size() > 3) throw unexpected("']'");
  }
  expect_operator("]");
  if (value->kind == Kind::Item && !value->parts[1]) throw problem("an index is missing");
  value->parts.resize(value->kind == Kind::Slice ? 4 : 2);
  return value;
}

ExpressionPointer Parser::filter(ExpressionPointer subject) {
  auto value = make(Kind::Filter);
  ++at_;
  value->name = identifier();
  value->function = find_filter(value->name);
  if (!value->function)
    throw problem(fmt::format("filter '{}' is not supported{}", printable(value->name),
                              suggest(value->name, filter_names())));
  add(*value, std::move(subject));
  if (is_operator("(")) arguments(*value);
  return value;
}

ExpressionPointer Parser::test(ExpressionPointer subject) {
  const Nesting nesting(*this);
  auto value = make(Kind::Test);
  ++at_;
  const bool is_negated = skip_name("not");
  value->name = token().kind == Token::Kind::Operator ? tokens_[at_++].text : identifier();
  value->function = find_test(value->name);
  if (!value->function)
    throw problem(fmt::format("test '{}' is not supported{}", printable(value->name),
                              suggest(value->name, test_names())));
  add(*value, std::move(subject));
  if (is_operator("(")) {
    arguments(*value);
  } else if ((token().kind == Token::Kind::Name && !is_keyword(token().text)) ||
             token().kind == Token::Kind::String || token().kind == Token::Kind::Integer ||
             token().kind == Token::Kind::Float || is_operator("[") || is_operator("{")) {
    add(*value, postfixed(primary()));
  }
  if (!is_negated) return value;
  auto negated = make(Kind::Not);
  add(*negated, std::move(value));
  return negated;
}

void Parser::arguments(Expression& call) {
  const Nesting nesting(*this);
  expect_operator("(");
  for (bool is_first = true; !skip_operator(")"); is_first = false) {
    if (!is_first) expect_operator(",");
    if (skip_operator(")")) return;
    const auto& next = tokens_[std::min(at_ + 1, tokens_.size() - 1)];
    if (token().kind == Token::Kind::Name && next.kind == Token::Kind::Operator &&
        next.text == "=") {
      auto name = identifier();
      ++at_;
      add(call, expression());
      call.named.emplace_back(std::move(name), std::move(call.parts.back()));
      call.parts.pop_back();
    } else {
      if (!call.named.empty()) throw problem("a named argument is followed by a plain one");
      add(call, expression());
    }
  }
}

}  // namespace lockstep::formats::jinja
