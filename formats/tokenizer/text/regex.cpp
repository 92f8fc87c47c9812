#include "formats/tokenizer/text/regex.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include "core/printable.h"
#include "formats/tokenizer/text/unicode.h"
#include "lockstep/error.h"

namespace lockstep::formats {
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

// The positions of a match; one per thread, because creating it allocates.
OnigRegion* thread_region() {
  struct Region {
    OnigRegion* region = onig_region_new();
    ~Region() { onig_region_free(region, 1); }
  };
  thread_local Region region;
  return region.region;
}

}  // namespace

struct Regex::Compiled {
  regex_t* regex = nullptr;
  ~Compiled() {
    if (regex) onig_free(regex);
  }
};

Regex::Regex(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  static const bool ready = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    return onig_set_retry_limit_in_match(kMaxRetries) == ONIG_NORMAL;
  }();
  check(ready, "Oniguruma could not be initialized");
  OnigErrorInfo info;
  const auto status =
      onig_new(&compiled_->regex, onig_text(pattern), onig_text(pattern) + pattern.size(),
               ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (status != ONIG_NORMAL)
    throw config_error(fmt::format("'{}' is not a valid regular expression: {}", printable(pattern),
                                   printable(onig_message(status, &info))));
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

bool Regex::Matches::next(size_t& begin, size_t& end) {
  const auto* text = onig_text(text_);
  auto* region = thread_region();
  while (from_ <= text_.size()) {
    const auto found = onig_search(regex_.compiled_->regex, text, text + text_.size(), text + from_,
                                   text + text_.size(), region, ONIG_OPTION_NONE);
    if (found == ONIG_MISMATCH) return false;
    if (found < 0)
      throw config_error(fmt::format("the text cannot be split by a regular expression: {}",
                                     printable(onig_message(static_cast<int>(found), nullptr))));
    begin = static_cast<size_t>(region->beg[0]);
    end = static_cast<size_t>(region->end[0]);
    from_ = end;
    if (begin == end && end == last_) {
      from_ += from_ < text_.size() ? utf8_size(text_[from_]) : 1;
      continue;
    }
    last_ = end;
    return true;
  }
  return false;
}

}  // namespace lockstep::formats
