// Encodes table columns as model inputs. Statistics (means, vocabularies, classes) are fitted to
// the training rows only. No LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/system/shared_work.h"
#include "formats/table/table.h"
#include "formats/table/table_config.h"

namespace lockstep::formats {

// The columns of `all` that the config uses, the label last. `index`: index columns, which are used
// only if the config names them. Throws Config for names that are not in `all`.
std::vector<std::string> used_columns(const TableConfig& config,
                                      const std::vector<std::string>& all, const std::string& file,
                                      const std::vector<std::string>& index = {});

// A one-line warning that names the columns of `index` that are not used; empty if there are none.
std::string index_warning(const TableConfig& config, const std::vector<std::string>& index,
                          const std::string& file);

// Whether an encoding depends on more than the columns: on values of all training rows, such as means and
// vocabularies. `has_counts`: whether the label is known to have integers from 0 only.
bool needs_all_rows(const TableConfig& config, bool has_counts);

// Applies `config.missing` to `table`, which has the used columns: removes rows to drop, and sets
// values to fill to NaN. Throws Config with `missing: error`, naming the first missing value, and
// for a missing label.
void drop_missing(const TableConfig& config, DataTable& table);

// Encoded rows, from which batches are gathered.
struct EncodedRows {
  size_t rows = 0;
  std::vector<float> numbers;               // [rows, numeric columns], row-major
  std::vector<std::vector<int32_t>> codes;  // for each text column: 0: unknown, otherwise 1 + index
  std::vector<int64_t> classes;             // labels: classes, values, or none
  std::vector<float> values;
};

class TableEncoding {
 public:
  // Statistics of the training rows of a table, which can be added in several pieces.
  class Statistics {
   public:
    // `has_all`: all training rows are added. Without, for !needs_all_rows(), any of them are enough.
    explicit Statistics(const TableConfig& config, bool has_all = true)
        : config_(config), has_all_(has_all) {}
    // `training`: rows of `table`, which has the used columns; from the second piece on, their
    // order may differ. Throws Config if the columns or their kinds differ between pieces; a column
    // without values has any kind.
    void add(const DataTable& table, std::span<const int64_t> training);

   private:
    friend class TableEncoding;
    struct Column {
      std::string name, list;
      bool is_text = false, is_unknown = false;
      int64_t count = 0;
      double mean = 0, squares = 0;  // of deviations from the mean
      double min = 0, max = 0;
      bool whole = true;  // whether all numbers are integers
      std::map<std::string, int64_t> words;
    };
    void learn_columns(const DataTable& table);
    void verify_names(const DataTable& table) const;
    static void verify_lists(const std::vector<Column>& fitted, const DataTable& table);
    static void verify_kind(const Column& fitted, const TableColumn& column,
                            const std::string& table);

    TableConfig config_;
    bool has_all_;
    std::vector<Column> columns_;
  };

  // Throws Config if there are no training rows, or label_kind does not match the label's values.
  explicit TableEncoding(const Statistics& statistics);

  // `work` executes the loop over ranges of rows. Throws Config, naming the row, for a label that
  // is not an integer or whose class does not occur in the training rows.
  EncodedRows encode(const DataTable& table, const ParallelFor& work = serial_for) const;

  // {"columns": [{name, words or, of all rows, mean and deviation, feature (first index), features (count)}],
  // "classes", ...}, see Dataset::metadata().
  Json metadata() const;

  bool has_label() const { return label_.has_value(); }
  bool labels_are_classes() const { return label_is_class_; }
  bool one_hot() const { return config_.one_hot; }
  int64_t num_features() const { return num_features_; }
  int64_t num_categories() const;  // text columns
  int64_t num_numbers() const { return std::ssize(columns_) - num_categories(); }

  // The location of a column: its kind, its index in EncodedRows, its first feature, and its number
  // of features.
  struct Place {
    bool is_text;
    size_t column;
    int64_t feature, width;
  };
  const std::vector<Place>& places() const { return places_; }

 private:
  using Column = Statistics::Column;
  static double deviation_of(const Column& column);
  void verify_label() const;
  void encode_label(const DataTable& table, EncodedRows& rows) const;
  static std::vector<int32_t> encode_words(const Column& fitted, const TableColumn& column);

  TableConfig config_;
  bool has_all_;  // as Statistics
  std::vector<Column> columns_;
  std::optional<Column> label_;
  bool label_is_class_ = false;
  std::vector<Place> places_;
  int64_t num_features_ = 0;
};

}  // namespace lockstep::formats
