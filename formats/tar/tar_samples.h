// The samples of a tar archive, by the convention of WebDataset: members that follow each other and
// whose names are the same up to the first dot of the file name are one sample; the rest of the name is
// the extension. No LibTorch.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tar/tar_file.h"

namespace lockstep::formats {

struct TarSampleMember {
  std::string extension;  // lower case, without the first dot: "jpg", "left.jpg"
  TarMember file;
};

struct TarSample {
  std::string key;
  std::vector<TarSampleMember> members;

  // nullptr: the sample has no such member.
  const TarMember* find(std::string_view extension) const;
  // "jpg, cls", for messages.
  std::string extensions() const;
};

// Calls `use` for each sample, in order. Hidden files, files without an extension and files in
// `__name__` are skipped, as by WebDataset. Throws Config as for_each_tar_member(); if a sample has two
// members with the same extension, or members of other samples between its own; if there are no samples.
void for_each_tar_sample(std::span<const uint8_t> archive, const std::string& name,
                         const std::function<void(const TarSample&)>& use);

}  // namespace lockstep::formats
