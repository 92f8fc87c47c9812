// The files of an ObjectCache: copies, and parts of copies that are being fetched. Processes lock
// them with flock(), which a kill releases.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/system/file_descriptor.h"
#include "formats/store/object_store.h"

namespace lockstep::formats {

inline constexpr const char* kPartEnding = ".part";

// The name of the copy of an object.
std::string copy_name(const std::string& endpoint, const std::string& bucket,
                      const std::string& key);

// Opens and locks the copy if it is of this version of the object, and notes that it was used.
std::optional<FileDescriptor> open_version(const std::filesystem::path& copy,
                                           const ObjectInfo& object);

// Marks an open file as the copy of this version. Throws Environment.
void mark_version(int file, const ObjectInfo& object, const std::string& name);

// Creates and locks the part of a copy; nullopt: another process or thread fetches it. Throws
// Environment.
std::optional<FileDescriptor> lock_part(const std::filesystem::path& part);

// Reserves `bytes` of disk space for the locked part: removes the copies that were used least
// recently, and parts of killed processes, so that `directory` has at most `max_bytes`. Throws
// Config if the object is too large for that, Environment if the disk is full.
void reserve_space(const std::filesystem::path& directory, int64_t max_bytes, int part,
                   int64_t bytes, const std::string& name);

}  // namespace lockstep::formats
