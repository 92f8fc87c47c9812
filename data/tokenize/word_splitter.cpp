#include "data/tokenize/word_splitter.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr unsigned long kMaxRetries = 100'000'000;

const OnigUChar* onig_text(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string onig_message(int code, OnigErrorInfo* info) {
  OnigUChar message[ONIG_MAX_ERROR_MESSAGE_LEN];
  const auto length = onig_error_code_to_str(message, code, info);
  return {reinterpret_cast<const char*>(message), static_cast<size_t>(length)};
}

}  // namespace

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct WordSplitter::Pattern {
  regex_t* regex = nullptr;
  OnigRegion* region = onig_region_new();
  ~Pattern() {
    if (regex) onig_free(regex);
    onig_region_free(region, 1);
  }
};

WordSplitter::WordSplitter(const std::string& pattern) : pattern_(std::make_unique<Pattern>()) {
  OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
  onig_initialize(encodings, 1);
  onig_set_retry_limit_in_match(kMaxRetries);
  OnigErrorInfo info;
  const auto status =
      onig_new(&pattern_->regex, onig_text(pattern), onig_text(pattern) + pattern.size(),
               ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (status != ONIG_NORMAL)
    throw config_error(fmt::format("'{}' is not a valid regular expression: {}", printable(pattern),
                                   printable(onig_message(status, &info))));
}

WordSplitter::~WordSplitter() = default;
WordSplitter::WordSplitter(WordSplitter&&) noexcept = default;
WordSplitter& WordSplitter::operator=(WordSplitter&&) noexcept = default;

void WordSplitter::split(std::string_view text,
                         const std::function<void(std::string_view)>& use) const {
  const auto* begin = onig_text(text);
  const auto* end = begin + text.size();
  size_t done = 0, from = 0;
  while (from < text.size()) {
    const auto found = onig_search(pattern_->regex, begin, end, begin + from, end, pattern_->region,
                                   ONIG_OPTION_NONE);
    if (found == ONIG_MISMATCH) break;
    if (found < 0)
      throw config_error(fmt::format("the text cannot be split into words: {}",
                                     printable(onig_message(static_cast<int>(found), nullptr))));
    const auto first = static_cast<size_t>(pattern_->region->beg[0]);
    const auto last = static_cast<size_t>(pattern_->region->end[0]);
    if (last == first) {  // ignore empty matches
      from = last + 1;
      continue;
    }
    if (first > done) use(text.substr(done, first - done));
    use(text.substr(first, last - first));
    done = from = last;
  }
  if (done < text.size()) use(text.substr(done));
}

}  // namespace lockstep::data
