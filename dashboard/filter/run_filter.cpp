#include "dashboard/filter/run_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/nearest_name.h"
#include "core/printable.h"

namespace lockstep::dashboard {
namespace {

constexpr int kDeepest = 100;
constexpr size_t kMaxFilterLength = 4096;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_special(char c) {
  return is_space(c) || std::string_view("()<>=!~,\"'").find(c) != std::string_view::npos;
}

struct FilterWord {
  enum class Kind { Word, Text, Operator, Symbol, End };  // Text: in quotes; Symbol: ( ) ,

  Kind kind = Kind::End;
  std::string text;
  size_t column = 1;  // from 1
};

// Cuts an expression into words; a call such as min(train/loss) is one. Ends with an End.
class FilterScanner {
 public:
  explicit FilterScanner(std::string_view text) : text_(text) {
    if (text.size() > kMaxFilterLength)
      throw FilterError(fmt::format("longer than {} bytes", kMaxFilterLength), kMaxFilterLength);
  }

  std::vector<FilterWord> words() {
    while (true) {
      while (at_ < text_.size() && is_space(text_[at_])) ++at_;
      begin_ = at_;
      if (at_ == text_.size()) break;
      next();
    }
    add(FilterWord::Kind::End, "");
    return std::move(words_);
  }

 private:
  void add(FilterWord::Kind kind, std::string text) {
    words_.push_back({kind, std::move(text), begin_ + 1});
  }
  void next() {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return quoted(c);
    if (c == '(' || c == ')' || c == ',') return add(FilterWord::Kind::Symbol, {text_[at_++]});
    if (is_special(c)) return comparison();
    word();
  }
  void quoted(char quote) {
    std::string value;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      value += text_[at_];
    }
    if (at_ == text_.size()) throw FilterError("a quote is not closed", begin_ + 1);
    ++at_;
    add(FilterWord::Kind::Text, value);
  }
  void comparison() {
    for (const auto* op : {"!=", "!~", "<=", ">=", "==", "=", "<", ">", "~"}) {
      if (!text_.substr(at_).starts_with(op)) continue;
      at_ += std::string_view(op).size();
      return add(FilterWord::Kind::Operator, std::string_view(op) == "==" ? "=" : op);
    }
    throw FilterError(fmt::format("'{}' is not an operator", printable(text_.substr(at_, 1))),
                      at_ + 1);
  }
  void word() {
    while (at_ < text_.size() && !is_special(text_[at_])) ++at_;
    const auto name = text_.substr(begin_, at_ - begin_);
    if (at_ < text_.size() && text_[at_] == '(' && is_total(name)) {
      const auto close = text_.find(')', at_);
      if (close == std::string_view::npos)
        throw FilterError(fmt::format("{}( is not closed", name), at_ + 1);
      at_ = close + 1;
    }
    add(FilterWord::Kind::Word, std::string(text_.substr(begin_, at_ - begin_)));
  }

  std::string_view text_;
  size_t at_ = 0, begin_ = 0;
  std::vector<FilterWord> words_;
};

// Recursive descent; one call per line of the grammar.
class FilterParser {
 public:
  FilterParser(std::string_view text, double now)
      : words_(FilterScanner(text).words()), now_(now) {}

  // Empty for an empty expression.
  RunTest parse() {
    if (here().kind == FilterWord::Kind::End) return {};
    auto test = any();
    if (here().kind != FilterWord::Kind::End) fail("expected 'and' or 'or'");
    return test;
  }

 private:
  const FilterWord& here() const { return words_[at_]; }
  bool is(std::string_view symbol) const {
    return here().kind == FilterWord::Kind::Symbol && here().text == symbol;
  }
  bool is_keyword(std::string_view word) const {
    return here().kind == FilterWord::Kind::Word && here().text == word;
  }
  bool take_keyword(std::string_view word) {
    if (!is_keyword(word)) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const {
    const auto given = here().kind == FilterWord::Kind::End
                           ? std::string("the end")
                           : fmt::format("'{}'", printable(here().text));
    throw FilterError(fmt::format("{}, found {}", what, given), here().column);
  }

  static RunTest either(RunTest a, RunTest b) {
    return [a = std::move(a), b = std::move(b)](const auto& run, const auto& names) {
      return a(run, names) || b(run, names);
    };
  }
  RunTest any() {
    if (++depth_ > kDeepest) throw FilterError("nested too deep", here().column);
    auto test = all();
    while (take_keyword("or")) test = either(std::move(test), all());
    --depth_;
    return test;
  }
  RunTest all() {
    auto test = single();
    while (true) {
      const bool is_over = here().kind == FilterWord::Kind::End || is(")") || is_keyword("or");
      if (is_over) return test;
      take_keyword("and");  // or nothing, which means the same
      test = [a = std::move(test), b = single()](const auto& run, const auto& names) {
        return a(run, names) && b(run, names);
      };
    }
  }
  RunTest single() {
    bool negative = false;
    while (take_keyword("not")) negative = !negative;
    RunTest test;
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
  RunTest comparison() {
    if (take_keyword("has"))
      return [field = field(), now = now_](const auto& run, const auto& names) {
        return !field.values(run, names, now).empty();
      };
    const auto& next = words_[std::min(at_ + 1, words_.size() - 1)];
    const bool compares = next.kind == FilterWord::Kind::Operator;
    const bool lists = next.kind == FilterWord::Kind::Word && next.text == "in" &&
                       words_[std::min(at_ + 2, words_.size() - 1)].text == "(";
    if (!compares && !lists) return search_test(value_text());
    const auto asked = field();
    if (lists) return within(asked);
    const auto op = here().text;
    ++at_;
    return compare(asked, op);
  }
  RunField field() {
    if (here().kind != FilterWord::Kind::Word && here().kind != FilterWord::Kind::Text)
      fail("expected a field");
    const auto text = here().text;
    const auto parsed = RunField::parse(text);
    if (!parsed) {
      const auto nearest = nearest_name(text, plain_fields());
      throw FilterError(fmt::format("unknown field '{}'{}", printable(text),
                                    nearest ? "; did you mean '" + *nearest + "'?"
                                            : "; metrics have a slash or are written metric.NAME, "
                                              "configuration is config.KEY"),
                        here().column);
    }
    ++at_;
    return *parsed;
  }
  std::string value_text() {
    if (here().kind != FilterWord::Kind::Word && here().kind != FilterWord::Kind::Text)
      fail("expected a value");
    return words_[at_++].text;
  }
  RunTest compare(const RunField& field, const std::string& op) {
    const auto& word = here();
    auto text = value_text();
    try {
      return field_test({.field = field,
                         .op = op,
                         .text = std::move(text),
                         .now = now_,
                         .is_quoted = word.kind == FilterWord::Kind::Text});
    } catch (const std::invalid_argument& error) {
      throw FilterError(error.what(), word.column);
    }
  }
  RunTest within(const RunField& field) {
    at_ += 2;  // in (
    auto test = compare(field, "=");
    while (is(",")) {
      ++at_;
      test = either(std::move(test), compare(field, "="));
    }
    if (!is(")")) fail("expected ',' or ')'");
    ++at_;
    return test;
  }

  std::vector<FilterWord> words_;
  double now_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

RunFilter::RunFilter(std::string_view text, double now) : test_(FilterParser(text, now).parse()) {}

}  // namespace lockstep::dashboard
