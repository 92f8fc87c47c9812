// What a file is that is not of the expected format, told from its first bytes. No LibTorch.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::formats {

struct FileKind {
  const char* name;    // "a Parquet file"
  const char* remedy;  // what to do with it
};

// Of binary formats and JSON that users have in the place of a table in text form; nothing where
// the bytes may well be text.
std::optional<FileKind> other_file_kind(std::string_view begin);

// Throws Config when `text` is of such a format, naming it. `expected`: e.g. "CSV".
void refuse_other_kinds(std::string_view text, const std::string& name, const char* expected);

}  // namespace lockstep::formats
