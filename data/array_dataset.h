// Base of datasets of stored arrays: each field is an array whose first dimension is the sample,
// and a batch is one gather of rows per field. The arrays may be split into shards, files with a
// part of the samples each.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/config/config_map.h"
#include "data/block_cache.h"
#include "data/byte_scaling.h"
#include "data/unchanged_files.h"
#include "formats/array_file.h"
#include "lockstep/config_value.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

enum class ArrayDtype { Float32, Float64, Int32, Int64 };
constexpr auto choices(ArrayDtype) { return std::array{"float32", "float64", "int32", "int64"}; }

// How an array becomes a field: converted to `dtype`, divided by `divide_by`, then (x - mean) /
// std, in float32 unless dtype is float64: the same operations, and so the same bits, as in Python.
struct ArrayFieldConfig {
  std::optional<std::string> from;
  std::optional<ArrayDtype> dtype;
  std::optional<double> divide_by, mean, std;
};

template <class V>
void fields(V& v, ArrayFieldConfig& c) {
  v("from", c.from, "name of the array (default: the field's name)");
  v("dtype", c.dtype,
    "type of its elements in a batch (default: as stored; uint16 and uint32 become int32 and "
    "int64)");
  v("divide_by", c.divide_by, "divisor of its elements, e.g. 255", above(0));
  v("mean", c.mean, "subtracted after that; together with std");
  v("std", c.std, "divisor after that", above(0));
}

struct ArrayDatasetConfig {
  std::string path;
  ConfigMap<ArrayFieldConfig> fields;
  std::optional<int64_t> limit;
};

// The files of a dataset.
struct ArrayShards {
  std::vector<std::filesystem::path> files;
  // The arrays of files[number].
  std::function<std::vector<formats::StoredArray>(size_t number)> open;
  // Whether they are mapped, so that a shard needs no memory; otherwise it is read as a whole.
  bool mapped = true;
};

// The files with this extension in a folder, by name. Throws Environment if it cannot be listed; as
// formats::ObjectCache.
std::vector<std::filesystem::path> files_with_ending(const std::string& folder,
                                                     const std::string& ending);

// The arrays of `path`, in any format. A bounded number of shards is open at a time. Of shards in a
// store that are not compressed, those as large as the first have as many samples: they are opened when
// they are needed.
class ArrayDataset : public Dataset {
 public:
  // `shards`: the content of `config.path`. Uses the arrays named in config.fields, or all if it is
  // empty. `name`: of the dataset, for messages. Throws Config: a missing array, arrays whose first
  // dimensions differ or that have none, a conversion that would lose precision, shards whose
  // arrays differ.
  ArrayDataset(std::string name, const ArrayDatasetConfig& config, ArrayShards shards);

  int64_t size() const override { return ends_.back(); }
  SampleInfo sample_info() const override;
  std::vector<FieldLayout> layout() const override;
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override;

 private:
  struct Field {
    std::string name;
    formats::StoredArray array;
    std::vector<int64_t> shape;  // of one sample
    size_t row_elements = 0;
    ArrayFieldConfig change;
    at::ScalarType given;
    bool is_copy = false;                // rows are copied as stored
    std::optional<ByteScaling> scaling;  // for bytes converted to float32
  };

  struct OpenShard {
    std::vector<Field> fields;
    int64_t size = 0;
    bool is_compressed = false;
  };

  void add_others(bool are_compressed);
  bool add(size_t number);
  void verify_as_counted(size_t number, const OpenShard& shard) const;
  std::vector<double> labels() const;
  std::vector<double> numbers_of(const std::string& field_name) const;
  OpenShard open(size_t number) const;
  OpenShard reopen(size_t number) const;
  Field make_field(const std::string& name, const ArrayFieldConfig& change,
                   const std::vector<formats::StoredArray>& arrays, size_t shard) const;
  Error refused(std::optional<size_t> number, const std::string& why) const;
  // Of mapped files, after reading.
  static void verify_unchanged(const OpenShard& shard);
  static void note_read(const Field& field, size_t rows);
  static void gather(const Field& field, std::span<const int64_t> rows,
                     std::span<const int64_t> places, const at::Tensor& tensor);

  std::string name_;
  ArrayDatasetConfig config_;
  std::string path_;  // for messages
  ArrayShards files_;
  std::vector<FieldLayout> layout_;
  int64_t first_rows_ = 0;     // of the first shard
  int64_t max_open_ = 0;       // of mapped shards
  std::vector<int64_t> ends_;  // of the shards, in the order of their samples
  UnchangedFiles unchanged_;
  std::vector<bool> is_later_;             // of the shards: it is not opened at the start
  mutable std::optional<OpenShard> only_;  // a single shard, until its first use
  mutable BlockCache<OpenShard> open_;
};

}  // namespace lockstep::data
