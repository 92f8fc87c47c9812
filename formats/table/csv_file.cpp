#include "formats/table/csv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "formats/file_kind.h"
#include "formats/mapped_file.h"
#include "formats/table/cell_value.h"
#include "formats/table/csv_records.h"
#include "formats/unpack.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMaxColumns = 100'000;

struct WordHash {
  using is_transparent = void;
  size_t operator()(std::string_view word) const { return std::hash<std::string_view>{}(word); }
};

// Counts the kinds of cells of a column, except missing ones.
struct CellCounts {
  struct Kind {
    int64_t count = 0, line = 0;  // the line of the first one
    std::string first;
    const char* format = "";
  };
  std::array<Kind, 5> kinds;

  Kind& of(CellKind kind) { return kinds[static_cast<size_t>(kind)]; }
  int64_t total() const {
    int64_t sum = 0;
    for (const auto& kind : kinds) sum += kind.count;
    return sum;
  }
};

struct SelectedColumn {
  size_t cell;                  // index in a record
  std::optional<bool> is_text;  // declared or, after the first pass, inferred
  CellCounts counts;
  TableColumn column;
  std::unordered_map<std::string, int32_t, WordHash, std::equal_to<>> codes;
};

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
    if (table_.rows == 0)
      throw config_error(name_ + (has_only_returns() ? ": its lines end with carriage returns "
                                                       "alone; convert them to line feeds"
                                                     : ": it has no records"));
    for (auto& selected : selected_) table_.columns.push_back(std::move(selected.column));
    return std::move(table_);
  }

 private:
  // As files of old Macs, and of Excel's "CSV (Macintosh)".
  bool has_only_returns() const {
    return text_.find('\n') == text_.npos && text_.find('\r') != text_.npos;
  }

  void read_names(CsvRecords& records) {
    names_ = format_.names;
    if (!format_.header) return;
    if (!records.next()) throw config_error(name_ + ": it is empty");
    if (!records.problem().empty()) throw bad(records.line(), records.problem());
    std::string memory;
    for (const auto& cell : records.cells()) names_.emplace_back(cell.text(memory));
    if (names_.size() == 1) verify_separator(names_.front(), records.line());
    if (names_.size() > kMaxColumns)
      throw bad(records.line(), fmt::format("it has more than {} columns", kMaxColumns));
    for (const auto& name : names_)
      if (find_invalid_utf8(name) != std::string::npos || name.find('\0') != std::string::npos)
        throw bad(records.line(), "column names are not valid UTF-8");
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
      SelectedColumn selected{.cell = static_cast<size_t>(found - names_.begin())};
      selected.column.name = name;
      for (const auto& [declared, is_text] : format_.is_text)
        if (declared == name) selected.is_text = is_text;
      selected_.push_back(std::move(selected));
    }
  }

  // Detects a header with a single column that contains a different separator.
  void verify_separator(const std::string& only, int64_t line) const {
    for (const auto& [separator, text] :
         {std::pair{'\t', "\\t"}, {';', ";"}, {'|', "|"}, {',', ","}})
      if (separator != format_.separator && only.find(separator) != only.npos)
        throw bad(line, fmt::format("the only column is called '{}'; if it is a list of names, set "
                                    "separator: \"{}\"",
                                    printable(only), text));
  }

  // The first pass. The second pass handles invalid records.
  void infer_types(CsvRecords& records) {
    std::string memory;
    while (records.next()) {
      if (!records.problem().empty() || records.cells().size() != names_.size()) continue;
      for (auto& selected : selected_)
        if (!selected.is_text)
          count_cell(selected.counts, records.cells()[selected.cell].text(memory), records.line());
    }
    for (auto& selected : selected_) {
      selected.column.is_unknown = !selected.is_text && selected.counts.total() == 0;
      if (!selected.is_text) selected.is_text = is_text_column(selected);
      selected.column.is_text = *selected.is_text;
    }
  }

  void count_cell(CellCounts& counts, std::string_view text, int64_t line) {
    if (is_missing(text)) return;
    const auto cell = read_cell(text, format_.decimal);
    if (cell.kind == CellKind::Number && std::isnan(cell.value)) return;
    auto& kind = counts.of(cell.kind);
    if (++kind.count > 1) return;
    kind.line = line;
    kind.first = text;
    kind.format = cell.format;
  }

  // Numbers, booleans and times each form a numeric column, but cannot be mixed, and no cell is
  // ignored: a single "?" among a thousand numbers is an error, not a reason to treat them as text.
  bool is_text_column(SelectedColumn& selected) const {
    auto& counts = selected.counts;
    const auto total = counts.total();
    const auto main = std::ranges::max({CellKind::Number, CellKind::Truth, CellKind::Time}, {},
                                       [&](CellKind kind) { return counts.of(kind).count; });
    if (counts.of(main).count == total) return false;
    const auto texts = counts.of(CellKind::Text).count + counts.of(CellKind::Truth).count;
    if (2 * texts > total) return true;
    throw mixed(selected, main);
  }

  Error mixed(SelectedColumn& selected, CellKind main) const {
    const CellCounts::Kind* odd = nullptr;
    for (const auto kind :
         {CellKind::Text, CellKind::Formatted, CellKind::Truth, CellKind::Time, CellKind::Number})
      if (const auto& cells = selected.counts.of(kind);
          kind != main && cells.count > 0 && (!odd || cells.line < odd->line))
        odd = &cells;
    const auto name = printable(selected.column.name);
    const auto count = selected.counts.of(main).count;
    return bad(odd->line,
               fmt::format("column '{}': '{}' is not a number{}{}{}; write {} as a number, list it "
                           "in missing_values, or set types: {{{}: text}} to read all cells as "
                           "text",
                           name, printable(odd->first), *odd->format ? ": " : "", odd->format,
                           count == 0 ? std::string()
                                      : fmt::format(", but {} of {} cells are {}", count,
                                                    selected.counts.total(), plural_of(main)),
                           *odd->format ? "it" : "such cells", name));
  }

  static const char* plural_of(CellKind kind) {
    return kind == CellKind::Truth  ? "booleans"
           : kind == CellKind::Time ? "dates or times"
                                    : "numbers";
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
    for (auto& selected : selected_) append(selected, records.cells()[selected.cell]);
    table_.places.push_back(records.line());
    ++table_.rows;
  }

  std::string problem_of(const CsvRecords& records) {
    if (!records.problem().empty()) return records.problem();
    if (records.cells().size() != names_.size())
      return fmt::format("{} cells, expected {} columns", records.cells().size(), names_.size());
    for (const auto& selected : selected_) {
      const auto text = records.cells()[selected.cell].text(memory_);
      if (is_missing(text)) continue;
      if (!selected.column.is_text && !cell_value(text, format_.decimal))
        return fmt::format("column '{}': '{}' is not a number", printable(selected.column.name),
                           printable(text));
      if (selected.column.is_text && !selected.codes.contains(text) &&
          find_invalid_utf8(text) != std::string::npos)
        return fmt::format("column '{}': '{}' is not UTF-8 text", printable(selected.column.name),
                           printable(text));
    }
    return {};
  }

  void append(SelectedColumn& selected, const CsvCell& cell) {
    const auto text = cell.text(memory_);
    auto& column = selected.column;
    if (!column.is_text) {
      column.numbers.push_back(is_missing(text) ? std::numeric_limits<double>::quiet_NaN()
                                                : *cell_value(text, format_.decimal));
    } else if (is_missing(text)) {
      column.codes.push_back(-1);
    } else if (const auto known = selected.codes.find(text); known != selected.codes.end()) {
      column.codes.push_back(known->second);
    } else {
      const auto code = static_cast<int32_t>(column.words.size());
      selected.codes.emplace(text, code);
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
  std::vector<SelectedColumn> selected_;
  DataTable table_;
  std::string memory_;
};

// {"...  [{...  [[...
bool looks_like_json(std::string_view text) {
  constexpr auto kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == text.npos || (text[first] != '{' && text[first] != '[')) return false;
  const auto second = text.find_first_not_of(kSpace, first + 1);
  if (second == text.npos) return false;
  return text[first] == '{' ? text[second] == '"' : text[second] == '{' || text[second] == '[';
}

}  // namespace

DataTable parse_csv(std::string_view text, const CsvFormat& format, const std::string& name) {
  if (looks_like_json(text))
    throw config_error(name +
                       ": it is JSON, not CSV; use the dataset jsonl, which expects one object per "
                       "line");
  refuse_other_kinds(text, name, "CSV");
  return CsvParser(text, format, name).parse();
}

DataTable read_csv_file(const std::filesystem::path& path, const CsvFormat& format) {
  return read_unpacked(path, [&](std::string_view text, const std::string& name) {
    return parse_csv(text, format, name);
  });
}

}  // namespace lockstep::formats
