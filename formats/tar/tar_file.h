// Reads tar archives in memory: ustar, pax, GNU and V7. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace lockstep::formats {

// Of the header before the content of a member.
inline constexpr size_t kTarHeaderBytes = 512;

// A regular file in an archive.
struct TarMember {
  std::string name;
  size_t begin = 0, size = 0;  // of its content: bytes in the archive
};

// Calls `use` for each regular file, in order; directories are skipped. The contents are inside the
// archive, and do not overlap. `name`: of the archive, for messages. Throws Config: not a tar archive,
// or a compressed one; it is truncated, corrupt, or followed by other data; a member that is a link,
// sparse or a device.
void for_each_tar_member(std::span<const uint8_t> archive, const std::string& name,
                         const std::function<void(const TarMember&)>& use);

// The name in the header of the member whose content begins at `begin`: of a long name, the
// beginning.
std::string tar_name_at(std::span<const uint8_t> archive, size_t begin);

}  // namespace lockstep::formats
