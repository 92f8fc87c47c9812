#include "formats/table/labeled_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "formats/file_kind.h"
#include "formats/table/cell_value.h"
#include "formats/table/csv_file.h"
#include "formats/unpack.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using TextJson = nlohmann::json;

constexpr int kMaxTextDepth = 8;

class LabeledLine {
 public:
  LabeledLine(const TextJson& json, const std::string& name, int64_t line)
      : json_(json), name_(name), line_(line) {}

  LabeledText read(const LabeledTextFormat& format) const {
    LabeledText row{.place = line_};
    const auto& text = member(format.text);
    if (text.is_string()) {
      row.words.push_back(text.get<std::string>());
    } else {
      constexpr const char* kWords = "a string or a list of words";
      if (!text.is_array()) throw wrong(format.text, kWords);
      row.is_words = true;
      for (const auto& word : text) {
        if (!word.is_string()) throw wrong(format.text, kWords);
        row.words.push_back(word.get<std::string>());
      }
    }
    if (!format.pair.empty()) {
      const auto& pair = member(format.pair);
      if (!pair.is_string()) throw wrong(format.pair, "a string");
      row.pair = pair.get<std::string>();
    }
    if (!format.label.empty()) read_label(format.label, row);
    return row;
  }

 private:
  static constexpr const char* kLabelKinds = "a name, a number, or a list of names or of numbers";

  Error wrong(const std::string& key, const char* expected) const {
    return config_error(
        fmt::format("{}: line {}: '{}' is not {}", name_, line_, printable(key, 100), expected));
  }

  const TextJson& member(const std::string& key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null())
      throw config_error(fmt::format("{}: line {} has no '{}'", name_, line_, printable(key, 100)));
    return *found;
  }

  void read_label(const std::string& key, LabeledText& row) const {
    const auto& label = member(key);
    row.is_list = label.is_array();
    if (!row.is_list) return add(key, label, row);
    for (const auto& item : label) add(key, item, row);
    if (!row.names.empty() && !row.numbers.empty()) throw wrong(key, kLabelKinds);
  }

  void add(const std::string& key, const TextJson& value, LabeledText& row) const {
    if (value.is_string())
      row.names.push_back(value.get<std::string>());
    else if (value.is_boolean())
      row.numbers.push_back(value.get<bool>() ? 1 : 0);
    else if (value.is_number() && std::isfinite(value.get<double>()))
      row.numbers.push_back(value.get<double>());
    else
      throw wrong(key, kLabelKinds);
  }

  const TextJson& json_;
  const std::string& name_;
  int64_t line_;
};

bool is_csv(const std::filesystem::path& path) {
  const auto name = path.filename().string();
  return name.find(".csv") != name.npos || name.find(".tsv") != name.npos;
}

std::vector<LabeledText> rows_of_csv(const std::filesystem::path& path,
                                     const LabeledTextFormat& format) {
  const bool has_tabs = path.filename().string().find(".tsv") != std::string::npos;
  CsvFormat csv{.separator = has_tabs ? '\t' : ',', .columns = {format.text}, .missing = {""}};
  csv.is_text.emplace_back(format.text, true);
  if (!format.label.empty()) csv.columns.push_back(format.label);
  const auto is_value = [](const std::string& name) { return cell_value(name).has_value(); };
  if (!format.label.empty() && std::ranges::any_of(format.classes, is_value))
    csv.is_text.emplace_back(format.label, true);
  if (!format.pair.empty()) {
    csv.columns.push_back(format.pair);
    csv.is_text.emplace_back(format.pair, true);
  }
  const auto table = read_csv_file(path, csv);
  const auto& text = table.column(format.text);
  const auto* label = format.label.empty() ? nullptr : &table.column(format.label);
  const auto* pair = format.pair.empty() ? nullptr : &table.column(format.pair);
  std::vector<LabeledText> rows;
  for (size_t i = 0; i < table.rows; ++i) {
    if (text.is_missing(i) || (label && label->is_missing(i)))
      throw config_error(fmt::format("{}: no value in column '{}'", table.where(i),
                                     printable(text.is_missing(i) ? format.text : format.label)));
    LabeledText row{.words = {text.words[static_cast<size_t>(text.codes[i])]},
                    .place = i < table.places.size() ? table.places[i] : static_cast<int64_t>(i)};
    if (pair && pair->is_missing(i))
      throw config_error(
          fmt::format("{}: no value in column '{}'", table.where(i), printable(format.pair)));
    if (pair) row.pair = pair->words[static_cast<size_t>(pair->codes[i])];
    if (label && label->is_text)
      row.names.push_back(label->words[static_cast<size_t>(label->codes[i])]);
    else if (label)
      row.numbers.push_back(label->numbers[i]);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::vector<LabeledText> parse_labeled_jsonl(std::string_view text, const LabeledTextFormat& format,
                                             const std::string& name) {
  refuse_other_kinds(text, name, "JSON Lines");
  const auto is_shallow = [](int depth, TextJson::parse_event_t, TextJson&) {
    return depth <= kMaxTextDepth;
  };
  std::vector<LabeledText> rows;
  for (int64_t line = 1; !text.empty(); ++line) {
    const auto end = text.find('\n');
    const auto content = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (content.find_first_not_of(" \t\r") == content.npos) continue;
    const auto json = TextJson::parse(content, is_shallow, /*allow_exceptions=*/false);
    if (!json.is_object())
      throw config_error(fmt::format("{}: line {} is not a JSON object", name, line));
    rows.push_back(LabeledLine(json, name, line).read(format));
  }
  if (rows.empty()) throw config_error(name + ": it is empty");
  return rows;
}

std::vector<LabeledText> read_labeled_texts(const std::filesystem::path& path,
                                            const LabeledTextFormat& format) {
  if (is_csv(path)) return rows_of_csv(path, format);
  return read_unpacked(path, [&](std::string_view text, const std::string& name) {
    return parse_labeled_jsonl(text, format, name);
  });
}

}  // namespace lockstep::formats
