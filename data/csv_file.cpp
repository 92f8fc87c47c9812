#include "data/csv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "core/error.h"
#include "core/nearest_name.h"
#include "core/printable.h"
#include "data/csv_records.h"
#include "data/gzip.h"
#include "data/mapped_file.h"

namespace lockstep {
namespace {

constexpr size_t kMaxColumns = 100'000;
constexpr size_t kPieceOfText = 16u << 20;

struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};

struct WantedColumn {
  size_t cell;                  // where it stands in a record
  std::optional<bool> is_text;  // declared or, after the first pass, inferred
  bool declared = false;
  TableColumn column;
  std::unordered_map<std::string, int32_t, WordHash, std::equal_to<>> codes;
};

std::optional<double> csv_number(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = result.ec == std::errc{} && result.ptr == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

class CsvParser {
 public:
  CsvParser(std::string_view text, const CsvFormat& format, const std::string& name)
      : text_(text), format_(format), name_(name) {
    table_.name = name;
    table_.place = "line";
  }

  DataTable parse() {
    CsvRecords records(text_, format_.separator);
    read_names(records);
    choose_columns();
    infer_types(records);
    CsvRecords again(text_, format_.separator);
    if (format_.header) again.next();
    while (again.next()) read_row(again);
    if (table_.rows == 0) throw config_error(name_ + ": it has no records");
    for (auto& wanted : wanted_) table_.columns.push_back(std::move(wanted.column));
    return std::move(table_);
  }

 private:
  void read_names(CsvRecords& records) {
    names_ = format_.names;
    if (!format_.header) return;
    if (!records.next()) throw config_error(name_ + ": it is empty");
    if (!records.problem().empty()) throw bad(records.line(), records.problem());
    std::string memory;
    for (const auto& cell : records.cells()) names_.emplace_back(cell.text(memory));
    if (names_.size() > kMaxColumns)
      throw bad(records.line(), fmt::format("more than {} columns", kMaxColumns));
    for (const auto& name : names_)
      if (find_invalid_utf8(name) != std::string::npos || name.find('\0') != std::string::npos)
        throw bad(records.line(), "the names of the columns are not UTF-8 text");
  }

  void choose_columns() {
    auto chosen = format_.columns.empty() ? names_ : format_.columns;
    for (const auto& name : chosen) {
      const auto found = std::ranges::find(names_, name);
      if (found == names_.end())
        throw config_error(
            fmt::format("{}: no column '{}'{}", name_, printable(name), suggest(name, names_)));
      if (std::find(found + 1, names_.end(), name) != names_.end())
        throw config_error(fmt::format("{}: two columns are called '{}'", name_, printable(name)));
      WantedColumn wanted{.cell = static_cast<size_t>(found - names_.begin())};
      wanted.column.name = name;
      for (const auto& [declared, is_text] : format_.is_text)
        if (declared == name) wanted.is_text = is_text;
      wanted.declared = wanted.is_text.has_value();
      wanted_.push_back(std::move(wanted));
    }
  }

  // The first pass. A record that is no record is judged by the second one.
  void infer_types(CsvRecords& records) {
    std::string memory;
    while (records.next()) {
      if (!records.problem().empty() || records.cells().size() != names_.size()) continue;
      for (auto& wanted : wanted_) {
        if (wanted.is_text) continue;
        const auto text = records.cells()[wanted.cell].text(memory);
        if (!is_missing(text) && !csv_number(text)) wanted.is_text = true;
      }
    }
    for (auto& wanted : wanted_) wanted.column.is_text = wanted.is_text.value_or(false);
  }

  void read_row(const CsvRecords& records) {
    if (const auto problem = problem_of(records); !problem.empty()) {
      if (++table_.bad_rows == 1)
        table_.first_bad_row = fmt::format("line {}: {}", records.line(), problem);
      if (table_.bad_rows <= format_.max_bad_rows) return;
      const auto counted = format_.max_bad_rows == 0
                               ? std::string()
                               : fmt::format(" (bad sample {}, max_bad_samples is {})",
                                             table_.bad_rows, format_.max_bad_rows);
      throw bad(records.line(), problem + counted);
    }
    for (auto& wanted : wanted_) append(wanted, records.cells()[wanted.cell]);
    table_.places.push_back(records.line());
    ++table_.rows;
  }

  std::string problem_of(const CsvRecords& records) {
    if (!records.problem().empty()) return records.problem();
    if (records.cells().size() != names_.size())
      return fmt::format("{} cells, there are {} columns", records.cells().size(), names_.size());
    for (const auto& wanted : wanted_) {
      const auto text = records.cells()[wanted.cell].text(memory_);
      if (is_missing(text)) continue;
      if (!wanted.column.is_text && !csv_number(text))
        return fmt::format("column '{}': '{}' is no number", printable(wanted.column.name),
                           printable(text));
      if (wanted.column.is_text && !wanted.codes.contains(text) &&
          find_invalid_utf8(text) != std::string::npos)
        return fmt::format("column '{}': '{}' is not UTF-8 text", printable(wanted.column.name),
                           printable(text));
    }
    return {};
  }

  void append(WantedColumn& wanted, const CsvCell& cell) {
    const auto text = cell.text(memory_);
    auto& column = wanted.column;
    if (!column.is_text) {
      column.numbers.push_back(is_missing(text) ? std::numeric_limits<double>::quiet_NaN()
                                                : *csv_number(text));
    } else if (is_missing(text)) {
      column.codes.push_back(-1);
    } else if (const auto known = wanted.codes.find(text); known != wanted.codes.end()) {
      column.codes.push_back(known->second);
    } else {
      const auto code = static_cast<int32_t>(column.words.size());
      wanted.codes.emplace(text, code);
      column.words.emplace_back(text);
      column.codes.push_back(code);
    }
  }

  bool is_missing(std::string_view text) const {
    return std::ranges::find(format_.missing, text) != format_.missing.end();
  }

  Error bad(int64_t line, const std::string& why) const {
    return config_error(fmt::format("{}: line {}: {}", name_, line, why));
  }

  std::string_view text_;
  const CsvFormat& format_;
  const std::string& name_;
  std::vector<std::string> names_;
  std::vector<WantedColumn> wanted_;
  DataTable table_;
  std::string memory_;
};

std::string unpacked(const MappedFile& file) {
  GzipReader reader(file.bytes(), file.name());
  std::string text;
  for (;;) {
    const auto at = text.size();
    text.resize(at + kPieceOfText);
    const auto count = reader.read({reinterpret_cast<uint8_t*>(text.data()) + at, kPieceOfText});
    text.resize(at + count);
    if (count < kPieceOfText) return text;
  }
}

}  // namespace

DataTable parse_csv(std::string_view text, const CsvFormat& format, const std::string& name) {
  return CsvParser(text, format, name).parse();
}

DataTable read_csv_file(const std::filesystem::path& path, const CsvFormat& format) {
  const MappedFile file(path);
  return file.read([&](std::span<const uint8_t> bytes) {
    if (is_gzip(bytes)) return parse_csv(unpacked(file), format, file.name());
    return parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, format,
                     file.name());
  });
}

}  // namespace lockstep
