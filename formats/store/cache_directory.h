// The files of an ObjectCache: copies, and parts of copies that are being fetched. Processes lock
// them with flock(), which a kill releases.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>

#include "core/system/file_descriptor.h"
#include "formats/store/object_store.h"

namespace lockstep::formats {

// The name of the copy of an object.
std::string copy_name(const std::string& endpoint, const std::string& bucket,
                      const std::string& key);

// Opens and locks the copy if it is of this version of the object, and notes that it was used.
std::optional<FileDescriptor> open_version(const std::filesystem::path& copy,
                                           const ObjectInfo& object);

// How long to wait for other processes. Functions that wait throw Environment when it is over, or a stop
// is requested.
struct Patience {
  std::chrono::milliseconds limit;  // without progress
  std::stop_token stop;
};
// When the process ends.
Error ended_error();

// One of them.
struct CopyOrPart {
  std::optional<FileDescriptor> copy;  // as of open_version()
  std::optional<FileDescriptor> part;  // of the copy, locked: the caller fetches the object into it
};
// Waits while another process or thread fetches the object. `name`: for messages.
CopyOrPart copy_or_part(const std::filesystem::path& copy, const ObjectInfo& object,
                        const Patience& patience, const std::string& name);

// Makes the part, which has all bytes of this version, the copy. Throws Environment.
void complete_part(const std::filesystem::path& copy, int part, const ObjectInfo& object,
                   const std::string& name);

// Reserves `bytes` of disk space for the locked part: removes the copies that were used least
// recently, and parts of killed processes, so that `directory` has at most `max_bytes`. Waits for parts
// that are being fetched: once they are complete they can be removed. Throws Config if the object is
// too large, Environment if the disk is full.
void reserve_space(const std::filesystem::path& directory, int64_t max_bytes, int part,
                   int64_t bytes, const Patience& patience, const std::string& name);

}  // namespace lockstep::formats
