// Detects files of unexpected formats from their first bytes. No LibTorch.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::formats {

struct FileKind {
  const char* name;    // "a Parquet file"
  const char* remedy;  // suggestion for the user
};

// Whether the first bytes of a file are not text in UTF-8.
bool is_binary(std::string_view begin);

// Detects binary formats that users commonly pass instead of a text table; nullopt if the bytes may
// be text.
std::optional<FileKind> other_file_kind(std::string_view begin);

// Throws Config, naming the format, if `text` is in such a format. `expected`: e.g. "CSV".
void refuse_other_kinds(std::string_view text, const std::string& name, const char* expected);

}  // namespace lockstep::formats
