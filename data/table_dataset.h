// Base of datasets of tables in text form: a file is read completely and kept in memory, column by
// column; several files are shards, read on demand.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/block_cache.h"
#include "data/table_batch.h"
#include "formats/mapped_file.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// The files of a dataset.
struct TableFiles {
  std::string path;  // for messages
  std::vector<std::filesystem::path> files;
  // Reads a file; skips at most `max_bad_rows` rows.
  std::function<formats::DataTable(const std::filesystem::path& file, int64_t max_bad_rows)> read;
  int64_t max_bad_rows = 0;  // of all files together
  std::optional<int64_t> limit;
};

// `path` itself, or the files in this folder with these extensions, by name. Throws Config if there
// are none, Environment if the folder cannot be listed.
std::vector<std::filesystem::path> table_files(const std::string& path,
                                               const std::vector<std::string>& endings);

class TableDataset : public EncodedTable {
 public:
  // Throws Config: what `read` throws, no rows left, a limit above the number of rows.
  TableDataset(const formats::TableConfig& config, TableFiles files);

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  SampleInfo sample_info() const override;
  void fit(const Dataset& train_set, std::span<const int64_t> training) override;
  std::vector<FieldLayout> layout() const override { return table_layout(encoding()); }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override;
  Json metadata() const override { return encoding().metadata(); }
  std::vector<std::string> warnings() const override { return warnings_; }
  const formats::TableEncoding& encoding() const override;

 private:
  bool is_sharded() const { return files_.files.size() > 1; }
  void add_file(const std::filesystem::path& file, int64_t& bad_rows);
  formats::DataTable read_used(const std::filesystem::path& file, int64_t max_bad_rows) const;
  formats::DataTable reread(size_t file) const;
  std::vector<double> labels() const;

  formats::TableConfig config_;
  TableFiles files_;
  std::vector<formats::MappedFile::Identity> identities_;
  std::vector<int64_t> ends_;                // of the files' rows
  std::optional<formats::DataTable> table_;  // of a single file, until fit()
  std::optional<formats::TableEncoding> encoding_;
  formats::EncodedRows rows_;  // of a single file
  mutable BlockCache<formats::EncodedRows> blocks_;
  std::vector<std::string> warnings_;
};

}  // namespace lockstep::data
