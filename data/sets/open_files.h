// The files of a columnar dataset. Of Parquet files the metadata stay in memory; Arrow files
// and MDS shards are mapped, and only a bounded number of them at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/block_cache.h"
#include "data/unchanged_files.h"
#include "formats/path_list.h"
#include "formats/table/columnar_file.h"
#include "formats/table/hive_partitions.h"

namespace lockstep::data {

// Maximum number of mapped files kept open: below the limit of a process.
inline constexpr int64_t kMaxMapped = 256;

// Thread: const functions are safe to call from several threads concurrently.
class OpenFiles {
 public:
  using File = std::shared_ptr<const formats::ColumnarFile>;

  // `are_mapped`: each opened file holds a mapping.
  OpenFiles(formats::PartitionedFiles files, bool are_mapped)
      : files_(std::move(files)),
        are_mapped_(are_mapped),
        opened_(count()),
        unchanged_(count()),
        mapped_([this](size_t number, SharedWork&) { return open_mapped(number); }) {
    int64_t largest = 0;
    for (const auto& file : files_.files()) largest = std::max(largest, file.bytes.value_or(0));
    if (are_mapped_) max_mapped_ = formats::max_open_files(paths(), kMaxMapped, largest);
    formats::pin_versions(paths());
  }

  const formats::PartitionedFiles& all() const { return files_; }
  size_t count() const { return files_.files().size(); }
  const std::filesystem::path& path(size_t number) const { return files_.files()[number].path; }
  // nullopt: not known before the file is opened.
  std::optional<int64_t> rows(size_t number) const { return files_.files()[number].rows; }

  // Begins to fetch these files if they are in an object store.
  void fetch_ahead(const std::vector<size_t>& numbers) const {
    std::vector<std::filesystem::path> paths;
    for (const auto number : numbers) paths.push_back(path(number));
    formats::fetch_ahead(paths);
  }
  void fetch_all_ahead() const { formats::fetch_ahead(paths()); }
  // The same, and waits until each was there.
  void fetch_all() const {
    fetch_all_ahead();
    for (const auto& file : files_.files()) const formats::LocalFile copy(file.path);
  }

  // Whether files are fetched later than they are opened: of files in an object store that are not mapped,
  // only the metadata are read before.
  bool are_fetched_later() const { return !are_mapped_ && formats::has_scheme(path(0)); }

  // Opens all files, if they are not mapped: then they stay open. Throws as PartitionedFiles::open().
  void open_all() {
    if (are_mapped_) return;
    formats::for_each_file(paths(),
                           [this](size_t number) { opened_[number] = files_.open(number); });
  }
  // Throws as PartitionedFiles::open().
  File open(size_t number) const { return opened_[number] ? opened_[number] : open_mapped(number); }

  // Calls `use` with a file; not before open_all(). Throws as
  // PartitionedFiles::open(), and Environment if a mapped file was changed since it was first opened.
  template <class Use>
  void use(size_t number, const Use& use) const {
    if (opened_[number]) return use(*opened_[number]);
    mapped_.use(number, max_mapped_, [&](const File& file) { use(*file); });
  }

 private:
  std::vector<std::filesystem::path> paths() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& file : files_.files()) paths.push_back(file.path);
    return paths;
  }
  File open_mapped(size_t number) const {
    return unchanged_.open(number, path(number), [&] { return files_.open(number); });
  }

  formats::PartitionedFiles files_;
  bool are_mapped_;
  int64_t max_mapped_ = 0;
  std::vector<File> opened_;
  UnchangedFiles unchanged_;
  mutable BlockCache<File> mapped_;
};

}  // namespace lockstep::data
