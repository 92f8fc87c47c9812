// Tensors in safetensors files: what Python's safetensors package reads and writes.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "lockstep/optimizer.h"

namespace lockstep::trainer {

// What safetensors calls a type, e.g. "F32". Throws Bug for one that it has no name for.
const char* dtype_name(at::ScalarType type);

// Writes `tensors` (any device) in the given order and syncs the file. `path` must not exist.
// Returns the CRC-32C of each tensor's bytes. Throws Environment (full disk, ...), Bug for a dtype
// that safetensors has no name for.
std::map<std::string, uint32_t> write_safetensors(const std::filesystem::path& path,
                                                  const NamedTensors& tensors);

// Reads all tensors to CPU memory, in the order of their data. `checksums`: when given, each tensor
// must match its own, and none may be missing. Throws Environment, naming file and tensor.
NamedTensors read_safetensors(
    const std::filesystem::path& path,
    const std::optional<std::map<std::string, uint32_t>>& checksums = std::nullopt);

// Of all tensors.
size_t bytes_of(const NamedTensors& tensors);

}  // namespace lockstep::trainer
