#include "formats/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using namespace std::string_view_literals;

struct KnownKind {
  std::string_view begin;
  FileKind kind;
};

constexpr const char* kUnpackFirst = "decompress it first (only gzip and zstd are supported)";
constexpr const char* kToParquet = "read it with pandas and save it with df.to_parquet(...)";

constexpr std::array<KnownKind, 17> kKnownKinds = {{
    {"BZh"sv, {"compressed with bzip2", kUnpackFirst}},
    {"\xFD"
     "7zXZ\0"sv,
     {"compressed with xz", kUnpackFirst}},
    {"7z\xBC\xAF"sv, {"a 7z archive", kUnpackFirst}},
    {"\x04\x22\x4D\x18"sv, {"compressed with lz4", kUnpackFirst}},
    {"PK\x03\x04"sv, {"a zip archive (or .xlsx, .npz, .pt)", "unpack it first"}},
    {"\x1F\x8B"sv, {"compressed with gzip twice", "decompress it once"}},
    {"\x28\xB5\x2F\xFD"sv, {"compressed with zstd twice", "decompress it once"}},
    {"PAR1"sv, {"a Parquet file", "use the dataset parquet"}},
    {"ARROW1"sv, {"a Feather or Arrow file", "use the dataset arrow"}},
    {"FEA1"sv, {"a Feather file", kToParquet}},
    {"\x89HDF"sv, {"an HDF5 file", kToParquet}},
    {"SQLite format 3"sv, {"an SQLite database", "export the table as CSV"}},
    {"\xD0\xCF\x11\xE0"sv, {"an Excel file (.xls)", "export the table as CSV"}},
    {"\x93NUMPY"sv, {"a NumPy .npy file", "use the dataset npy"}},
    {"%PDF"sv, {"a PDF document", "export the table as CSV"}},
    {"\xFF\xFE"sv, {"text in UTF-16", "convert it to UTF-8"}},
    {"\xFE\xFF"sv, {"text in UTF-16", "convert it to UTF-8"}},
}};

}  // namespace

bool is_binary(std::string_view begin) {
  const auto first = begin.substr(0, 256);
  const auto is_control = [](char c) {
    return c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r';
  };
  // The last character may be incomplete.
  const auto invalid = find_invalid_utf8(first);
  return std::ranges::any_of(first, is_control) ||
         (invalid != first.npos && invalid + 4 < first.size());
}

std::optional<FileKind> other_file_kind(std::string_view begin) {
  // Some of these formats start with letters, like the column names of a table.
  if (!is_binary(begin)) return std::nullopt;
  for (const auto& known : kKnownKinds)
    if (begin.starts_with(known.begin)) return known.kind;
  // Protocols 2 to 5 start with a byte that does not occur at the start of a text.
  if (begin.size() > 2 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5)
    return FileKind{"a Python pickle", kToParquet};
  return std::nullopt;
}

void refuse_other_kinds(std::string_view text, const std::string& name, const char* expected) {
  if (const auto other = other_file_kind(text))
    throw config_error(
        fmt::format("{}: it is {}, not {}; {}", name, other->name, expected, other->remedy));
}

}  // namespace lockstep::formats
