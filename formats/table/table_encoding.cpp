#include "formats/table/table_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

bool is_whole(double value) {
  return value == std::floor(value) && std::abs(value) <= kMaxExactInteger;
}

struct NumberColumn {
  const std::vector<double>* values;
  double filling;  // replaces missing values
  bool is_scaled;
  double origin, unit;
};

// The rows of a piece of work, and of a tile that is encoded column by column and fits in the
// cache.
constexpr size_t kRowsOfPiece = 4096, kRowsOfTile = 64;

// `out`: the output of row `begin`.
void encode_numbers(const std::vector<NumberColumn>& columns, size_t begin, size_t end,
                    float* out) {
  std::array<double, kRowsOfTile> whole;
  for (size_t c = 0; c < columns.size(); ++c) {
    const auto [all, filling, is_scaled, origin, unit] = columns[c];
    const auto* values = all->data() + begin;
    for (size_t i = 0; i < end - begin; ++i)
      whole[i] = values[i] != values[i] ? filling : values[i];
    if (is_scaled)
      for (size_t i = 0; i < end - begin; ++i) whole[i] = (whole[i] - origin) / unit;
    for (size_t i = 0; i < end - begin; ++i)
      out[i * columns.size() + c] = static_cast<float>(whole[i]);
  }
}

// Finds the columns of a table that others were fitted to. Those without values are found as
// missing values of the fitted kind.
class FittedColumns {
 public:
  explicit FittedColumns(const DataTable& table) : table_(table) {}

  // The result is valid as long as this exists.
  const TableColumn& find(const std::string& name, const std::string& list, bool is_text) {
    const auto stored =
        std::ranges::find(table_.columns, list.empty() ? name : list, &TableColumn::name);
    if (stored == table_.columns.end() || !stored->is_unknown) return table_.column(name);
    auto& column = empty_.emplace_back(TableColumn{.name = name, .list = list, .is_text = is_text});
    if (is_text)
      column.codes.assign(table_.rows, -1);
    else
      column.numbers = stored->numbers;
    return column;
  }

 private:
  const DataTable& table_;
  std::deque<TableColumn> empty_;
};

std::string missing_text(const TableColumn& column, size_t row) {
  if (column.is_text || std::isnan(column.numbers[row])) return "has no value";
  return fmt::format("is {}, which is not a finite float32 number", column.numbers[row]);
}

}  // namespace

std::vector<std::string> used_columns(const TableConfig& config,
                                      const std::vector<std::string>& all, const std::string& file,
                                      const std::vector<std::string>& index) {
  auto used = config.columns;
  if (used.empty())
    for (const auto& name : all)
      if (name != config.label && std::ranges::find(index, name) == index.end())
        used.push_back(name);
  for (size_t i = 0; i < used.size(); ++i) {
    if (std::ranges::find(all, used[i]) == all.end())
      throw config_error(
          fmt::format("{}: no column '{}'{}", file, printable(used[i]), suggest(used[i], all)));
    if (used[i] == config.label)
      throw config_error(fmt::format("{}: '{}' is the label and cannot also be a feature", file,
                                     printable(used[i])));
    if (std::find(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(i), used[i]) !=
        used.begin() + static_cast<std::ptrdiff_t>(i))
      throw config_error(fmt::format("{}: column '{}' is listed twice", file, printable(used[i])));
  }
  if (config.label) {
    if (std::ranges::find(all, *config.label) == all.end())
      throw config_error(fmt::format("{}: no column '{}'{}", file, printable(*config.label),
                                     suggest(*config.label, all)));
    used.push_back(*config.label);
  }
  return used;
}

std::string index_warning(const TableConfig& config, const std::vector<std::string>& index,
                          const std::string& file) {
  std::string names;
  if (config.columns.empty())
    for (const auto& name : index)
      if (name != config.label)
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", printable(name));
  if (names.empty()) return {};
  return fmt::format(
      "{}: column {} is a pandas index and is not used; to use it, list it in columns", file,
      names);
}

bool needs_all_rows(const TableConfig& config, bool has_counts) {
  const bool infers_label =
      config.label && !config.label_above && config.label_kind == LabelKind::Auto;
  return config.standardize || config.missing == MissingValues::Fill ||
         (infers_label && !has_counts);
}

void drop_missing(const TableConfig& config, DataTable& table) {
  std::vector<bool> kept;
  for (auto& column : table.columns) {
    const bool is_label = column.name == config.label;
    if (!column.has_missing()) continue;
    if (config.missing == MissingValues::Fill && !is_label) {
      for (auto& number : column.numbers)
        if (!is_usable(number)) number = std::numeric_limits<double>::quiet_NaN();
      continue;
    }
    kept.resize(table.rows, true);
    for (size_t row = 0; row < table.rows; ++row) {
      if (!column.is_missing(row)) continue;
      if (config.missing != MissingValues::Drop)
        throw config_error(
            fmt::format("{}: column '{}' {}; set missing: drop to skip such rows{}",
                        table.where(row), printable(column.name), missing_text(column, row),
                        is_label ? "" : ", or fill to use the mean of the training rows"));
      kept[row] = false;
    }
  }
  if (!kept.empty()) keep_rows(table, kept);
}

void TableEncoding::Statistics::verify_kind(const Column& fitted, const TableColumn& column,
                                            const std::string& table) {
  if (column.is_text != fitted.is_text)
    throw config_error(fmt::format("{}: column '{}' has {}, but {} in other training rows", table,
                                   printable(column.name), column.is_text ? "strings" : "numbers",
                                   fitted.is_text ? "strings" : "numbers"));
}

// With different lengths, features would be missing or silently dropped.
void TableEncoding::Statistics::verify_lists(const std::vector<Column>& fitted,
                                             const DataTable& table) {
  std::map<std::string, int64_t> lengths, found;
  for (const auto& column : fitted)
    if (!column.list.empty()) ++lengths[column.list];
  for (const auto& column : table.columns)
    if (!column.list.empty()) ++found[column.list];
  for (const auto& [list, length] : lengths)
    if (found.contains(list) && found[list] != length)
      throw config_error(
          fmt::format("{}: column '{}' has lists of length {}, but of length {} in other rows",
                      table.name, printable(list), found[list], length));
}

// Columns that are new, or had no values so far.
void TableEncoding::Statistics::learn_columns(const DataTable& table) {
  const auto add_to = [](std::vector<Column>& columns, const TableColumn& column) {
    columns.push_back({.name = column.name,
                       .list = column.list,
                       .is_text = column.is_text,
                       .is_unknown = column.is_unknown});
  };
  if (columns_.empty())
    for (const auto& column : table.columns) add_to(columns_, column);
  std::vector<Column> known;
  for (auto& fitted : columns_) {
    const auto count = known.size();
    for (const auto& column : table.columns)
      if (fitted.is_unknown && (column.list.empty() ? column.name : column.list) == fitted.name)
        add_to(known, column);
    if (known.size() == count) known.push_back(std::move(fitted));
  }
  columns_ = std::move(known);
}

void TableEncoding::Statistics::verify_names(const DataTable& table) const {
  for (const auto& column : table.columns) {
    const auto is_fitted = [&](const Column& fitted) {
      return fitted.name == column.name || (column.is_unknown && fitted.list == column.name);
    };
    if (std::ranges::none_of(columns_, is_fitted))
      throw config_error(
          fmt::format("{}: column '{}' is not in every file; name the columns to use", table.name,
                      printable(column.name)));
  }
}

void TableEncoding::Statistics::add(const DataTable& table, std::span<const int64_t> training) {
  learn_columns(table);
  verify_lists(columns_, table);
  verify_names(table);
  FittedColumns columns(table);
  for (auto& fitted : columns_) {
    const auto& column = columns.find(fitted.name, fitted.list, fitted.is_text);
    verify_kind(fitted, column, table.name);
    if (fitted.is_text) {
      std::vector<int64_t> counts(column.words.size());
      for (const auto row : training)
        if (const auto code = column.codes[static_cast<size_t>(row)]; code >= 0)
          ++counts[static_cast<size_t>(code)];
      for (size_t word = 0; word < counts.size(); ++word)
        if (counts[word] > 0) fitted.words[column.words[word]] += counts[word];
      continue;
    }
    // Welford's algorithm: one pass, no cancellation as with sums of squares.
    for (const auto row : training) {
      const auto value = column.numbers[static_cast<size_t>(row)];
      if (std::isnan(value)) continue;
      const auto deviation = value - fitted.mean;
      fitted.mean += deviation / static_cast<double>(++fitted.count);
      fitted.squares += deviation * (value - fitted.mean);
      fitted.min = fitted.count == 1 ? value : std::min(fitted.min, value);
      fitted.max = fitted.count == 1 ? value : std::max(fitted.max, value);
      fitted.whole = fitted.whole && is_whole(value);
    }
  }
}

TableEncoding::TableEncoding(const Statistics& statistics)
    : config_(statistics.config_), has_all_(statistics.has_all_), columns_(statistics.columns_) {
  check(!columns_.empty(), "no training rows were added");
  if (config_.label) {
    label_ = columns_.back();
    columns_.pop_back();
    verify_label();
    label_is_class_ = config_.label_above || config_.label_kind == LabelKind::Class ||
                      (config_.label_kind == LabelKind::Auto &&
                       (label_->is_text || (label_->whole && label_->min >= 0)));
  }
  for (const auto& column : columns_)
    if (config_.one_hot && std::ssize(column.words) > config_.max_words)
      throw config_error(fmt::format(
          "column '{}' has {} distinct strings, each of which would become a feature: more than "
          "max_words: {}; remove it from columns, raise max_words, or set one_hot: false to use "
          "the number of each string instead",
          printable(column.name), column.words.size(), config_.max_words));
  size_t numbers = 0, texts = 0;
  for (const auto& column : columns_) {
    const auto width = !column.is_text   ? 1
                       : config_.one_hot ? static_cast<int64_t>(column.words.size())
                                         : 0;
    places_.push_back({column.is_text, column.is_text ? texts++ : numbers++, num_features_, width});
    num_features_ += width;
  }
}

void TableEncoding::verify_label() const {
  const auto refused = [&](const std::string& why) {
    return config_error(fmt::format("label '{}': {}", printable(*config_.label), why));
  };
  const auto& label = *label_;
  if (label.name != config_.label)
    throw refused("it contains lists; a label must be one value per row");
  const bool fits = label.is_text || (label.whole && label.min >= 0);
  if (label.is_text && config_.label_above) throw refused("label_above requires numbers");
  if (config_.label_above) return;
  if (label.is_text && config_.label_kind == LabelKind::Value)
    throw refused("strings are not values; remove label_kind to use them as classes");
  if (config_.label_kind == LabelKind::Class && !fits)
    throw refused("classes must be non-negative integers; set label_kind: value, or label_above");
  if (config_.label_kind == LabelKind::Auto && !fits && label.whole && label.min == -1 &&
      label.max <= 1)
    throw refused(
        "its values are integers from -1 to 1: set label_above: 0 for two classes, or "
        "label_kind: value to predict the numbers");
}

Json TableEncoding::metadata() const {
  const auto words_of = [](const Column& column) {
    auto words = Json::array();
    for (const auto& [word, count] : column.words) words.push_back(word);
    return words;
  };
  auto columns = Json::array();
  for (size_t c = 0; c < columns_.size(); ++c) {
    const auto& column = columns_[c];
    Json json = {{"name", column.name}};
    if (places_[c].width > 0) {
      json["feature"] = places_[c].feature;
      json["features"] = places_[c].width;
    }
    if (column.is_text)
      json["words"] = words_of(column);
    else if (has_all_)
      json.update({{"mean", column.mean}, {"deviation", deviation_of(column)}});
    columns.push_back(std::move(json));
  }
  Json metadata = {{"columns", columns}, {"standardized", config_.standardize}};
  if (!label_) return metadata;
  metadata["label"] = {{"name", label_->name}};
  if (config_.label_above)
    metadata["label"]["above"] = *config_.label_above;
  else if (label_->is_text)
    metadata["classes"] = words_of(*label_);
  return metadata;
}

double TableEncoding::deviation_of(const Column& column) {
  const auto variance = column.count > 0 ? column.squares / static_cast<double>(column.count) : 0;
  return variance > 0 ? std::sqrt(variance) : 1;
}

int64_t TableEncoding::num_categories() const {
  return std::ranges::count_if(columns_, [](const auto& column) { return column.is_text; });
}

EncodedRows TableEncoding::encode(const DataTable& table, const ParallelFor& work) const {
  EncodedRows rows{.rows = table.rows};
  std::vector<NumberColumn> numbers;
  Statistics::verify_lists(columns_, table);
  FittedColumns columns(table);
  for (const auto& fitted : columns_) {
    const auto& column = columns.find(fitted.name, fitted.list, fitted.is_text);
    Statistics::verify_kind(fitted, column, table.name);
    if (fitted.is_text)
      rows.codes.push_back(encode_words(fitted, column));
    else
      numbers.push_back(
          {&column.numbers, fitted.mean, config_.standardize, fitted.mean, deviation_of(fitted)});
  }
  rows.numbers.resize(table.rows * numbers.size());
  if (!numbers.empty())
    work((table.rows + kRowsOfPiece - 1) / kRowsOfPiece, [&](size_t piece) {
      const auto end = std::min(table.rows, (piece + 1) * kRowsOfPiece);
      for (auto row = piece * kRowsOfPiece; row < end; row += kRowsOfTile)
        encode_numbers(numbers, row, std::min(end, row + kRowsOfTile),
                       rows.numbers.data() + row * numbers.size());
    });
  if (label_) encode_label(table, rows);
  return rows;
}

std::vector<int32_t> TableEncoding::encode_words(const Column& fitted, const TableColumn& column) {
  std::map<std::string, int32_t> numbers;
  for (const auto& [word, count] : fitted.words)
    numbers.emplace(word, static_cast<int32_t>(numbers.size()) + 1);
  std::vector<int32_t> translation;
  for (const auto& word : column.words) {
    const auto known = numbers.find(word);
    translation.push_back(known == numbers.end() ? 0 : known->second);
  }
  std::vector<int32_t> codes(column.codes.size());
  for (size_t row = 0; row < codes.size(); ++row)
    codes[row] = column.codes[row] < 0 ? 0 : translation[static_cast<size_t>(column.codes[row])];
  return codes;
}

void TableEncoding::encode_label(const DataTable& table, EncodedRows& rows) const {
  FittedColumns columns(table);
  const auto& column = columns.find(label_->name, label_->list, label_->is_text);
  const auto refused = [&](size_t row, const std::string& why) {
    return config_error(
        fmt::format("{}: label '{}' {}", table.where(row), printable(column.name), why));
  };
  if (column.is_text != label_->is_text)
    throw config_error(fmt::format("{}: label '{}' has a different type in the training rows",
                                   table.name, printable(column.name)));
  const auto codes = column.is_text ? encode_words(*label_, column) : std::vector<int32_t>();
  for (size_t row = 0; row < table.rows; ++row) {
    if (column.is_text) {
      if (codes[row] == 0)
        throw refused(row,
                      fmt::format("is '{}', which does not occur in the training rows",
                                  printable(column.words[static_cast<size_t>(column.codes[row])])));
      rows.classes.push_back(codes[row] - 1);
    } else if (const auto value = column.numbers[row]; config_.label_above) {
      rows.classes.push_back(value > *config_.label_above ? 1 : 0);
    } else if (label_is_class_) {
      if (!is_whole(value) || value < 0)
        throw refused(row, fmt::format("is {}: classes must be non-negative integers", value));
      rows.classes.push_back(static_cast<int64_t>(value));
    } else {
      rows.values.push_back(static_cast<float>(value));
    }
  }
}

}  // namespace lockstep::formats
