// The files of a columnar dataset. Of Parquet files the metadata stay in memory; Arrow files
// and MDS shards are mapped, and only a bounded number of them at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "data/block_cache.h"
#include "formats/mapped_file.h"
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
        mapped_([this](size_t number, SharedWork&) { return File(reopen(number)); }) {
    std::vector<std::filesystem::path> paths;
    for (const auto& file : files_.files()) paths.push_back(file.path);
    if (are_mapped_) max_mapped_ = formats::max_open_files(paths, kMaxMapped);
  }

  size_t count() const { return files_.files().size(); }
  const std::filesystem::path& path(size_t number) const { return files_.files()[number].path; }

  // Opens the next file. Throws as PartitionedFiles::open().
  File add() {
    const auto number = opened_.size();
    if (are_mapped_) identities_.push_back(formats::MappedFile::identity_of(path(number)));
    File file = files_.open(number);
    opened_.push_back(are_mapped_ ? nullptr : file);
    return file;
  }

  // Calls `use` with an opened file. Throws Environment if a mapped file was changed meanwhile.
  template <class Use>
  void use(size_t number, const Use& use) const {
    if (opened_[number]) return use(*opened_[number]);
    mapped_.use(number, max_mapped_, [&](const File& file) { use(*file); });
  }

 private:
  std::unique_ptr<formats::ColumnarFile> reopen(size_t number) const {
    return formats::MappedFile::read_again(path(number), identities_[number],
                                           [&] { return files_.open(number); });
  }

  formats::PartitionedFiles files_;
  bool are_mapped_;
  int64_t max_mapped_ = 0;
  std::vector<File> opened_;
  std::vector<formats::MappedFile::Identity> identities_;  // of mapped files
  mutable BlockCache<File> mapped_;
};

}  // namespace lockstep::data
