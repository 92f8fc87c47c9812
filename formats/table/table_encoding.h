// From columns of a table to what a model takes. What that needs to know (means, vocabularies,
// classes) is learned from the training rows alone. No LibTorch.
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

// The columns of `all` that the config uses, the label last. `index`: those of them that number the
// rows, which are used only where the config names them. Throws Config for names not in `all`.
std::vector<std::string> used_columns(const TableConfig& config,
                                      const std::vector<std::string>& all, const std::string& file,
                                      const std::vector<std::string>& index = {});

// A line that says which columns of `index` are not used; empty where there are none.
std::string index_remark(const TableConfig& config, const std::vector<std::string>& index,
                         const std::string& file);

// Leaves out the rows that `missing` says to drop, and makes NaN of what is to be filled. Throws
// Config with `missing: error`, naming the first missing value, and for a missing label. `table`:
// the used columns.
void drop_missing(const TableConfig& config, DataTable& table);

// What batches are made of.
struct EncodedRows {
  size_t rows = 0;
  std::vector<float> numbers;               // [rows, columns of numbers]: a sample lies together
  std::vector<std::vector<int32_t>> codes;  // of each column of texts: 0 unknown, 1... the words
  std::vector<int64_t> classes;             // labels, of one kind or none
  std::vector<float> values;
};

class TableEncoding {
 public:
  // What the training rows of one or more pieces of a table say.
  class Statistics {
   public:
    explicit Statistics(const TableConfig& config) : config_(config) {}
    // `training`: rows of `table`, which has the used columns, in any order from the second piece
    // on. Pieces come in any order. Throws Config for a piece with other columns or kinds of them.
    void add(const DataTable& table, std::span<const int64_t> training);

   private:
    friend class TableEncoding;
    struct Column {
      std::string name, list;
      bool is_text = false;
      int64_t count = 0;
      double mean = 0, squares = 0;  // of deviations from the mean
      double least = 0, greatest = 0;
      bool whole = true;  // numbers: all are whole
      std::map<std::string, int64_t> words;
    };
    static void verify_lists(const std::vector<Column>& learned, const DataTable& table);
    static void verify_kind(const Column& learned, const TableColumn& column,
                            const std::string& table);

    TableConfig config_;
    std::vector<Column> columns_;
  };

  // Throws Config: no training rows, a label_kind that the label's values do not allow.
  explicit TableEncoding(const Statistics& statistics);

  // Throws Config, naming the row: a label of no class that the training rows have, or one that is
  // no whole number. `work`: does ranges of rows, which are pieces.
  EncodedRows encode(const DataTable& table, const DoPieces& work = do_in_turn) const;

  // {"columns": [{name, words or mean and deviation, feature: its first one, features}], "classes",
  // ...}: what the numbers mean.
  Json meaning() const;

  bool has_label() const { return label_.has_value(); }
  bool labels_are_classes() const { return label_is_class_; }
  bool one_hot() const { return config_.one_hot; }
  int64_t num_features() const { return num_features_; }
  int64_t num_categories() const;  // columns of texts
  int64_t num_numbers() const { return std::ssize(columns_) - num_categories(); }

  // Where a column stands among the features: its kind, its place in EncodedRows, its first
  // feature, and how many of them it has.
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
  static std::vector<int32_t> encode_words(const Column& learned, const TableColumn& column);

  TableConfig config_;
  std::vector<Column> columns_;
  std::optional<Column> label_;
  bool label_is_class_ = false;
  std::vector<Place> places_;
  int64_t num_features_ = 0;
};

}  // namespace lockstep::formats
