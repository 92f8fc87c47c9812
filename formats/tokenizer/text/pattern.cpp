#include "formats/tokenizer/text/pattern.h"

namespace lockstep::formats {

Pattern Pattern::fixed(std::string text) {
  if (text.empty()) return regex("");  // matches between all characters
  Pattern pattern;
  pattern.fixed_ = std::move(text);
  return pattern;
}

Pattern Pattern::regex(const std::string& text) {
  Pattern pattern;
  pattern.regex_.emplace(text);
  return pattern;
}

Pattern Pattern::of(const JsonPart& json) {
  if (json.has("String")) return fixed(json.text("String"));
  if (!json.has("Regex")) throw json.refused("expected a String or a Regex");
  try {
    return regex(json.text("Regex"));
  } catch (const Error& error) {
    throw json.refused(error.what());
  }
}

std::string replace_all(std::string_view text, const Pattern& pattern, std::string_view content) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  pattern.parts(text, [&](size_t begin, size_t end, bool is_match) {
    out += is_match ? content : text.substr(begin, end - begin);
  });
  return out;
}

}  // namespace lockstep::formats
