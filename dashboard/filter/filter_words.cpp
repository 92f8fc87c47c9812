#include "dashboard/filter/filter_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/printable.h"
#include "dashboard/filter/run_filter.h"

namespace lockstep {
namespace {

constexpr size_t kLongestFilter = 4096;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_special(char c) {
  return is_space(c) || std::string_view("()<>=!~,\"'").find(c) != std::string_view::npos;
}

bool is_call(std::string_view word) {
  constexpr std::array<std::string_view, 6> kCalls = {"last", "min",   "max",
                                                      "mean", "count", "step"};
  return std::ranges::find(kCalls, word) != kCalls.end();
}

class FilterScanner {
 public:
  explicit FilterScanner(std::string_view text) : text_(text) {}

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
    if (at_ < text_.size() && text_[at_] == '(' && is_call(name)) {
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

}  // namespace

std::vector<FilterWord> filter_words(std::string_view text) {
  if (text.size() > kLongestFilter)
    throw FilterError(fmt::format("longer than {} bytes", kLongestFilter), kLongestFilter);
  return FilterScanner(text).words();
}

}  // namespace lockstep
