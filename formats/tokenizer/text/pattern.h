// What splits or replaces text in a tokenizer.json: a fixed text or a regular expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/tokenizer/text/json_part.h"
#include "formats/tokenizer/text/regex.h"

namespace lockstep::formats {

// Thread-safe.
class Pattern {
 public:
  static Pattern fixed(std::string text);
  // Throws Config: not a valid regular expression.
  static Pattern regex(const std::string& pattern);
  // {"String": ...} or {"Regex": ...}. Throws Config.
  static Pattern of(const JsonPart& json);

  // Calls use(begin, end, is_match) for each match in `text` and for each part between matches, in
  // order; together they are the text. Throws Config if a search takes too long.
  template <class Use>
  void parts(std::string_view text, const Use& use) const {
    size_t done = 0;
    const auto match = [&](size_t begin, size_t end) {
      if (begin > done) use(done, begin, false);
      use(begin, end, true);
      done = end;
    };
    if (regex_) {
      Regex::Matches matches(*regex_, text);
      for (size_t begin, end; matches.next(begin, end);) match(begin, end);
    } else {
      for (size_t at; (at = text.find(fixed_, done)) != text.npos;) match(at, at + fixed_.size());
    }
    if (done < text.size()) use(done, text.size(), false);
  }

 private:
  Pattern() = default;
  std::string fixed_;
  std::optional<Regex> regex_;
};

// `text` with each match replaced by `content`.
std::string replace_all(std::string_view text, const Pattern& pattern, std::string_view content);

}  // namespace lockstep::formats
