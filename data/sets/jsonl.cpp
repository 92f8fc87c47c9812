// Dataset "jsonl": a table as JSON Lines, one object per line, plain or compressed, or a folder of
// such files (shards). Fields: "features", "categories" and "label", see data/table_batch.h.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "data/table_dataset.h"
#include "formats/table/jsonl_file.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

struct JsonlConfig {
  std::string path;
  formats::TableConfig table;
  int64_t max_bad_samples = 0;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, JsonlConfig& c) {
  v("path", c.path,
    "the file, plain or compressed with gzip or zstd, or a folder of *.jsonl, *.ndjson, "
    "*.jsonl.gz, ... (shards)",
    required());
  fields(v, c.table);
  v("max_bad_samples", c.max_bad_samples,
    "skip up to this many lines that cannot be read; one more is an error", at_least(0));
  v("limit", c.limit, "use only the first N rows", at_least(1));
}

formats::DataTable read_lines(const JsonlConfig& config, const fs::path& file,
                              int64_t max_bad_rows) {
  formats::JsonlFormat format{.columns = config.table.columns, .max_bad_rows = max_bad_rows};
  if (!format.columns.empty() && config.table.label) format.columns.push_back(*config.table.label);
  auto table = read_jsonl_file(file, format);
  choose_columns(table, used_columns(config.table, column_names(table), table.name));
  return table;
}

class JsonlDataset final : public TableDataset {
 public:
  using Config = JsonlConfig;

  explicit JsonlDataset(const Config& config)
      : TableDataset(config.table, {.path = config.path,
                                    .files = table_files(
                                        config.path, {".jsonl", ".ndjson", ".jsonl.gz",
                                                      ".ndjson.gz", ".jsonl.zst", ".ndjson.zst"}),
                                    .read =
                                        [config](const fs::path& file, int64_t max_bad_rows) {
                                          return read_lines(config, file, max_bad_rows);
                                        },
                                    .max_bad_rows = config.max_bad_samples,
                                    .limit = config.limit}) {}
};

REGISTER_DATASET("jsonl", JsonlDataset, "a table as JSON Lines: one object per line");

}  // namespace
}  // namespace lockstep::data
