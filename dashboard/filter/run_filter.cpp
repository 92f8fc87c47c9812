#include "dashboard/filter/run_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/nearest_name.h"
#include "core/printable.h"

namespace lockstep::dashboard {
namespace {

constexpr int kMaxDepth = 100;
constexpr size_t kMaxFilterLength = 4096;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_special(char c) {
  return is_space(c) || std::string_view("()<>=!~,\"'").find(c) != std::string_view::npos;
}

struct FilterToken {
  enum class Kind { Word, Text, Operator, Symbol, End };  // Text: quoted; Symbol: ( ) ,

  Kind kind = Kind::End;
  std::string text;
  size_t column = 1;  // from 1
};

// Splits an expression into tokens; a call such as min(train/loss) is one Word. The last token is
// End.
class FilterScanner {
 public:
  explicit FilterScanner(std::string_view text) : text_(text) {
    if (text.size() > kMaxFilterLength)
      throw FilterError(fmt::format("filter is longer than {} bytes", kMaxFilterLength),
                        kMaxFilterLength);
  }

  std::vector<FilterToken> tokens() {
    while (true) {
      while (at_ < text_.size() && is_space(text_[at_])) ++at_;
      begin_ = at_;
      if (at_ == text_.size()) break;
      next();
    }
    add(FilterToken::Kind::End, "");
    return std::move(tokens_);
  }

 private:
  void add(FilterToken::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), begin_ + 1});
  }
  void next() {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return quoted(c);
    if (c == '(' || c == ')' || c == ',') return add(FilterToken::Kind::Symbol, {text_[at_++]});
    if (is_special(c)) return comparison();
    word();
  }
  void quoted(char quote) {
    std::string value;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_];
    }
    if (at_ == text_.size()) throw FilterError("unterminated quote", begin_ + 1);
    ++at_;
    add(FilterToken::Kind::Text, value);
  }
  void comparison() {
    for (const auto* op : {"!=", "!~", "<=", ">=", "==", "=", "<", ">", "~"}) {
      if (!text_.substr(at_).starts_with(op)) continue;
      at_ += std::string_view(op).size();
      return add(FilterToken::Kind::Operator, op);
    }
    throw FilterError(fmt::format("'{}' is not an operator", printable(text_.substr(at_, 1))),
                      at_ + 1);
  }
  void word() {
    while (at_ < text_.size() && !is_special(text_[at_])) ++at_;
    const auto name = text_.substr(begin_, at_ - begin_);
    if (at_ < text_.size() && text_[at_] == '(' && is_aggregate(name)) {
      const auto close = text_.find(')', at_);
      if (close == std::string_view::npos)
        throw FilterError(fmt::format("expected ')' to close '{}('", name), at_ + 1);
      at_ = close + 1;
    }
    add(FilterToken::Kind::Word, std::string(text_.substr(begin_, at_ - begin_)));
  }

  std::string_view text_;
  size_t at_ = 0, begin_ = 0;
  std::vector<FilterToken> tokens_;
};

// A recursive-descent parser.
class FilterParser {
 public:
  FilterParser(std::string_view text, double now)
      : tokens_(FilterScanner(text).tokens()), now_(now) {}

  // Empty for an empty expression.
  RunPredicate parse() {
    if (here().kind == FilterToken::Kind::End) return {};
    auto test = any();
    if (here().kind != FilterToken::Kind::End) fail("expected 'and' or 'or'");
    return test;
  }

 private:
  const FilterToken& here() const { return tokens_[at_]; }
  bool is(std::string_view symbol) const {
    return here().kind == FilterToken::Kind::Symbol && here().text == symbol;
  }
  bool is_keyword(std::string_view word) const {
    return here().kind == FilterToken::Kind::Word && here().text == word;
  }
  bool take_keyword(std::string_view word) {
    if (!is_keyword(word)) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const {
    const auto found = here().kind == FilterToken::Kind::End
                           ? std::string("the end")
                           : fmt::format("'{}'", printable(here().text));
    throw FilterError(fmt::format("{}, found {}", what, found), here().column);
  }

  static RunPredicate disjunction(RunPredicate a, RunPredicate b) {
    return [a = std::move(a), b = std::move(b)](const auto& run, const auto& names) {
      return a(run, names) || b(run, names);
    };
  }
  RunPredicate any() {
    if (++depth_ > kMaxDepth)
      throw FilterError(fmt::format("nested deeper than {} levels", kMaxDepth), here().column);
    auto test = all();
    while (take_keyword("or")) test = disjunction(std::move(test), all());
    --depth_;
    return test;
  }
  RunPredicate all() {
    auto test = single();
    while (true) {
      const bool at_end = here().kind == FilterToken::Kind::End || is(")") || is_keyword("or");
      if (at_end) return test;
      take_keyword("and");  // optional
      test = [a = std::move(test), b = single()](const auto& run, const auto& names) {
        return a(run, names) && b(run, names);
      };
    }
  }
  RunPredicate single() {
    bool negative = false;
    while (take_keyword("not")) negative = !negative;
    RunPredicate test;
    if (is("(")) {
      ++at_;
      test = any();
      if (!is(")")) fail("expected ')'");
      ++at_;
    } else {
      test = comparison();
    }
    if (!negative) return test;
    return
        [test = std::move(test)](const auto& run, const auto& names) { return !test(run, names); };
  }
  RunPredicate comparison() {
    if (take_keyword("has"))
      return [field = field(), now = now_](const auto& run, const auto& names) {
        return !field.values(run, names, now).empty();
      };
    const auto& next = tokens_[std::min(at_ + 1, tokens_.size() - 1)];
    const bool compares = next.kind == FilterToken::Kind::Operator;
    const bool lists = next.kind == FilterToken::Kind::Word && next.text == "in" &&
                       tokens_[std::min(at_ + 2, tokens_.size() - 1)].text == "(";
    if (!compares && !lists) return text_predicate(value_text());
    const auto compared = field();
    if (lists) return within(compared);
    const auto op = here().text;
    ++at_;
    return compare(compared, op);
  }
  RunField field() {
    if (here().kind != FilterToken::Kind::Word && here().kind != FilterToken::Kind::Text)
      fail("expected a field");
    const auto text = here().text;
    const auto parsed = RunField::parse(text);
    if (!parsed) {
      const auto nearest = nearest_name(text, plain_fields());
      throw FilterError(fmt::format("unknown field '{}'{}", printable(text),
                                    nearest ? "; did you mean '" + *nearest + "'?"
                                            : "; write a metric as metric.NAME, a "
                                              "configuration key as config.KEY"),
                        here().column);
    }
    ++at_;
    return *parsed;
  }
  std::string value_text() {
    if (here().kind != FilterToken::Kind::Word && here().kind != FilterToken::Kind::Text)
      fail("expected a value");
    return tokens_[at_++].text;
  }
  RunPredicate compare(const RunField& field, const std::string& op) {
    const auto& word = here();
    auto text = value_text();
    try {
      return field_predicate({.field = field,
                              .op = op,
                              .text = std::move(text),
                              .now = now_,
                              .is_quoted = word.kind == FilterToken::Kind::Text});
    } catch (const std::invalid_argument& error) {
      throw FilterError(error.what(), word.column);
    }
  }
  RunPredicate within(const RunField& field) {
    at_ += 2;  // in (
    auto test = compare(field, "=");
    while (is(",")) {
      ++at_;
      test = disjunction(std::move(test), compare(field, "="));
    }
    if (!is(")")) fail("expected ',' or ')'");
    ++at_;
    return test;
  }

  std::vector<FilterToken> tokens_;
  double now_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

RunFilter::RunFilter(std::string_view text, double now)
    : predicate_(FilterParser(text, now).parse()) {}

}  // namespace lockstep::dashboard
