// Opens the files of a dataset, also again, and detects that one was changed in between.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/system/mutex.h"
#include "formats/mapped_file.h"

namespace lockstep::data {

// Thread: const functions are safe to call from several threads concurrently.
class UnchangedFiles {
 public:
  explicit UnchangedFiles(size_t count) : identities_(count) {}

  // Returns open(), which opens `path`, the file with this number. Throws what it throws, and
  // Environment if the file is missing or was changed since the first call.
  template <class Open>
  auto open(size_t number, const std::filesystem::path& path, const Open& open) const {
    const auto identity = identity_of(number, path);
    auto file = formats::MappedFile::read_again(path, identity, open);
    const MutexLock lock(mutex_);
    identities_[number] = identity;
    return file;
  }

 private:
  // When it was first opened; else now.
  formats::MappedFile::Identity identity_of(size_t number,
                                            const std::filesystem::path& path) const {
    {
      const MutexLock lock(mutex_);
      if (const auto& known = identities_[number]) return *known;
    }
    return formats::MappedFile::identity_of(path);
  }

  mutable Mutex mutex_;
  mutable std::vector<std::optional<formats::MappedFile::Identity>> identities_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::data
