#include "formats/table/jsonl_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "formats/file_kind.h"
#include "formats/table/json_lines.h"
#include "formats/table/word_numbers.h"
#include "formats/unpack.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
// Limits the table size if most lines have different keys, so that most cells are missing values.
constexpr size_t kCellsOfAnyFile = size_t{1} << 26, kCellsPerByte = 8;

using JsonObject = nlohmann::json;

struct JsonColumn {
  enum class Kind { Unknown, Number, Text, List };
  std::string name;
  Kind kind = Kind::Unknown;
  bool is_there = false;           // in any line, possibly as null
  std::vector<TableColumn> parts;  // one, or the elements of a list
  WordNumbers codes;
};

const char* kind_text(JsonColumn::Kind kind) {
  switch (kind) {
    case JsonColumn::Kind::Number: return "a number";
    case JsonColumn::Kind::Text: return "a string";
    case JsonColumn::Kind::List: return "a list";
    default: return "missing";
  }
}

JsonColumn::Kind kind_of(const JsonObject& value) {
  if (value.is_number() || value.is_boolean()) return JsonColumn::Kind::Number;
  if (value.is_string()) return JsonColumn::Kind::Text;
  return value.is_array() ? JsonColumn::Kind::List : JsonColumn::Kind::Unknown;
}

double json_number(const JsonObject& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  return value.is_number() ? value.get<double>() : kNoNumber;
}

class JsonlParser {
 public:
  JsonlParser(std::string_view text, const JsonlFormat& format, const std::string& name)
      : text_(text), format_(format), name_(name) {
    table_.name = name;
    table_.place = "line";
    for (const auto& column : format.columns) add_column(column);
  }

  DataTable parse() {
    text_ = without_utf8_mark(text_);
    for_each_json_line(text_,
                       [&](std::string_view line, int64_t number) { read_line(line, number); });
    if (table_.rows == 0) throw config_error(name_ + ": it has no records");
    for (auto& column : columns_) finish(column);
    return std::move(table_);
  }

 private:
  void add_column(const std::string& name) {
    places_.emplace(name, columns_.size());
    columns_.emplace_back().name = name;
  }

  // Adds new keys in the order of the line, which a JsonObject does not preserve.
  void add_columns(const JsonObject& row, std::string_view line) {
    const auto keys = row.items();
    const auto is_new = [&](const auto& item) { return !places_.contains(item.key()); };
    if (std::none_of(keys.begin(), keys.end(), is_new)) return;
    const auto in_order = nlohmann::ordered_json::parse(line);
    for (const auto& [key, value] : in_order.items())
      if (!places_.contains(key)) add_column(key);
  }

  void read_line(std::string_view line, int64_t number) {
    const auto row = JsonObject::parse(line, nullptr, /*allow_exceptions=*/false);
    if (const auto problem = problem_of(row, line); !problem.empty()) {
      if (++table_.bad_rows == 1)
        table_.first_bad_row = fmt::format("line {}: {}", number, problem);
      if (table_.bad_rows <= format_.max_bad_rows) return;
      const auto counted = format_.max_bad_rows == 0
                               ? std::string()
                               : fmt::format(" (bad sample {}, max_bad_samples is {})",
                                             table_.bad_rows, format_.max_bad_rows);
      throw config_error(fmt::format("{}: line {}: {}{}", name_, number, problem, counted));
    }
    if (format_.columns.empty()) add_columns(row, line);
    for (auto& column : columns_) append(column, row);
    table_.places.push_back(number);
    ++table_.rows;
    size_t width = 0;
    for (const auto& column : columns_) width += column.parts.size();
    if (width > (kCellsOfAnyFile + kCellsPerByte * text_.size()) / table_.rows)
      throw config_error(
          fmt::format("{}: {} columns of {} rows by line {} are too many for a file of {} bytes; "
                      "list the columns to use",
                      name_, width, table_.rows, number, text_.size()));
  }

  std::string problem_of(const JsonObject& row, std::string_view line) const {
    if (row.is_discarded() && find_invalid_utf8(line) != line.npos) return kNotUtf8;
    if (row.is_discarded())
      return begins_json_document(line)
                 ? kNotJsonLines
                 : "not valid JSON (NaN and Infinity are not; null is a missing value)";
    if (!row.is_object())
      return "expected a JSON object with the values of one row, got " +
             std::string(row.type_name());
    for (const auto& [key, value] : row.items()) {
      const auto place = places_.find(key);
      if (place == places_.end() && !format_.columns.empty()) continue;
      const auto* column = place == places_.end() ? nullptr : &columns_[place->second];
      if (auto problem = problem_of_value(value, column); !problem.empty())
        return fmt::format("column '{}': {}", printable(key), problem);
    }
    return {};
  }

  static std::string problem_of_value(const JsonObject& value, const JsonColumn* column) {
    if (value.is_null()) return {};
    if (value.is_object())
      return "expected a number, boolean, string or list of numbers, got an object; list the "
             "columns to use";
    const auto kind = kind_of(value);
    if (kind == JsonColumn::Kind::List) {
      if (value.empty()) return "the list is empty";
      if (value.size() > kMaxListLength) return too_long_list(value.size());
      for (const auto& element : value)
        if (!element.is_number() && !element.is_boolean() && !element.is_null())
          return "the list has an element that is not a number; list the columns to use";
    }
    if (!column || column->kind == JsonColumn::Kind::Unknown) return {};
    if (kind != column->kind)
      return fmt::format("expected {}, as in previous lines, got {}", kind_text(column->kind),
                         kind_text(kind));
    if (kind == JsonColumn::Kind::List && value.size() != column->parts.size())
      return fmt::format("expected a list of length {}, as in previous lines, got {}",
                         column->parts.size(), value.size());
    return {};
  }

  // Rows before the first value are missing values.
  void begin_column(JsonColumn& column, const JsonObject& value) {
    column.kind = kind_of(value);
    const bool is_list = column.kind == JsonColumn::Kind::List;
    column.parts.resize(is_list ? value.size() : 1);
    for (size_t i = 0; i < column.parts.size(); ++i) {
      auto& part = column.parts[i];
      part.name = is_list ? element_name(column.name, i) : column.name;
      if (is_list) part.list = column.name;
      part.is_text = column.kind == JsonColumn::Kind::Text;
      if (part.is_text)
        part.codes.resize(table_.rows, -1);
      else
        part.numbers.resize(table_.rows, kNoNumber);
    }
  }

  void append(JsonColumn& column, const JsonObject& row) {
    const auto found = row.find(column.name);
    const bool missing = found == row.end() || found->is_null();
    column.is_there = column.is_there || found != row.end();
    if (column.kind == JsonColumn::Kind::Unknown) {
      if (missing) return;
      begin_column(column, *found);
    }
    if (column.kind == JsonColumn::Kind::Text) {
      column.parts[0].codes.push_back(missing ? -1 : code_of(column, *found));
    } else if (column.kind == JsonColumn::Kind::Number) {
      column.parts[0].numbers.push_back(missing ? kNoNumber : json_number(*found));
    } else {
      for (size_t i = 0; i < column.parts.size(); ++i)
        column.parts[i].numbers.push_back(missing ? kNoNumber : json_number((*found)[i]));
    }
  }

  static int32_t code_of(JsonColumn& column, const JsonObject& value) {
    return number_of_word(value.get<std::string>(), column.parts[0], column.codes);
  }

  void finish(JsonColumn& column) {
    if (column.kind == JsonColumn::Kind::Unknown) {
      if (!column.is_there) throw unknown(column.name);
      begin_column(column, JsonObject(0));
      column.parts[0].is_unknown = true;
    }
    for (auto& part : column.parts) table_.columns.push_back(std::move(part));
  }

  Error unknown(const std::string& key) const {
    std::vector<std::string> keys;
    const auto first = JsonObject::parse(text_.substr(0, text_.find('\n')), nullptr, false);
    if (first.is_object())
      for (const auto& [name, value] : first.items()) keys.push_back(name);
    return config_error(
        fmt::format("{}: no column '{}'{}", name_, printable(key), suggest(key, keys)));
  }

  std::string_view text_;
  const JsonlFormat& format_;
  const std::string& name_;
  std::vector<JsonColumn> columns_;
  std::unordered_map<std::string, size_t> places_;
  DataTable table_;
};

}  // namespace

DataTable parse_jsonl(std::string_view text, const JsonlFormat& format, const std::string& name) {
  refuse_other_kinds(text, name, "JSON Lines");
  if (text.empty()) throw config_error(name + ": it is empty");
  return JsonlParser(text, format, name).parse();
}

DataTable read_jsonl_file(const std::filesystem::path& path, const JsonlFormat& format) {
  return read_unpacked(path, [&](std::string_view text, const std::string& name) {
    return parse_jsonl(text, format, name);
  });
}

}  // namespace lockstep::formats
