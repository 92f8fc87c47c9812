#include "dashboard/filter/run_filter.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "dashboard/filter/filter_predicate.h"
#include "dashboard/filter/filter_words.h"

namespace lockstep {
namespace {

constexpr int kDeepest = 100;

// Recursive descent; one call per line of the grammar.
class FilterParser {
 public:
  FilterParser(std::string_view text, double now) : words_(filter_words(text)), now_(now) {}

  std::unique_ptr<FilterTest> parse() {
    if (here().kind == FilterWord::Kind::End) return nullptr;
    auto test = any();
    if (here().kind != FilterWord::Kind::End) fail("expected 'and' or 'or'");
    return test;
  }

 private:
  using Test = std::unique_ptr<FilterTest>;

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

  Test any() {
    if (++depth_ > kDeepest) throw FilterError("nested too deep", here().column);
    auto test = all();
    while (take_keyword("or")) test = either(std::move(test), all());
    --depth_;
    return test;
  }
  Test all() {
    auto test = single();
    while (true) {
      const bool is_over = here().kind == FilterWord::Kind::End || is(")") || is_keyword("or");
      if (is_over) return test;
      take_keyword("and");  // or nothing, which means the same
      test = both(std::move(test), single());
    }
  }
  Test single() {
    bool negative = false;
    while (take_keyword("not")) negative = !negative;
    Test test;
    if (is("(")) {
      ++at_;
      test = any();
      if (!is(")")) fail("expected ')'");
      ++at_;
    } else {
      test = comparison();
    }
    return negative ? negation(std::move(test)) : std::move(test);
  }
  Test comparison() {
    if (take_keyword("has")) return presence(field());
    const auto& next = words_[std::min(at_ + 1, words_.size() - 1)];
    const bool compares = next.kind == FilterWord::Kind::Operator;
    const bool lists = next.kind == FilterWord::Kind::Word && next.text == "in" &&
                       words_[std::min(at_ + 2, words_.size() - 1)].text == "(";
    if (!compares && !lists) return search(value_text());
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
  Test compare(const RunField& field, const std::string& op) {
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
  Test within(const RunField& field) {
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

RunFilter::RunFilter(std::string_view text, double now)
    : test_(FilterParser(text, now).parse()), now_(now) {}
RunFilter::~RunFilter() = default;
RunFilter::RunFilter(RunFilter&&) noexcept = default;

bool RunFilter::takes(const RunSummary& run, const NameTable& names) const {
  return !test_ || test_->takes({run, names, now_});
}

}  // namespace lockstep
