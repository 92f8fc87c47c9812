// The lines of a file in JSON Lines. No LibTorch.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::formats {

constexpr const char* kNotJsonLines =
    "not one JSON object per line; in pandas, save with df.to_json(path, orient='records', "
    "lines=True)";

constexpr const char* kNotUtf8 = "not UTF-8 text; convert the file to UTF-8";

// Whether a line that is not valid JSON looks like the first one of a document of several lines.
inline bool begins_json_document(std::string_view line) {
  return line.starts_with('[') || line == "{";
}

// `text` without a byte order mark.
inline std::string_view without_utf8_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

// Calls use(line, number) for each line that is not empty; numbers begin at 1.
template <class Use>
void for_each_json_line(std::string_view text, const Use& use) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != line.npos) use(line, number);
  }
}

}  // namespace lockstep::formats
