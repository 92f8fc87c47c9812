// Reads and writes safetensors files, compatible with Python's safetensors package.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "formats/safetensors_header.h"
#include "lockstep/optimizer.h"

namespace lockstep::trainer {

// The safetensors name of a dtype, e.g. "F32". Throws Bug for a dtype without one.
const char* dtype_name(at::ScalarType type);

// Returns the content of a tensor.
using FetchTensor = std::function<at::Tensor(const std::string& name)>;

// Writes `tensors` (any device) in the given order and syncs the file. `path` must not exist.
// `fetch`: for tensors of the meta device. Returns the CRC-32C of each tensor's bytes. Throws
// Environment (full disk, ...), Bug for a dtype without a safetensors name.
std::map<std::string, uint32_t> write_safetensors(
    const std::filesystem::path& path, const NamedTensors& tensors, const FetchTensor& fetch = {},
    const formats::SafetensorsMetadata& metadata = {});

// Reads all tensors of a safetensors file, or of the one in a compiled package, in the order of their
// data. They are in a private mapping of the file, which
// takes memory only for pages that are written; those that were read are released with the tensor.
// `checksums`: if given, each tensor
// must match its checksum, and none may be missing. Throws Environment, naming file and tensor.
NamedTensors read_safetensors(
    const std::filesystem::path& path,
    const std::optional<std::map<std::string, uint32_t>>& checksums = std::nullopt);

// Total size of all tensors.
size_t bytes_of(const NamedTensors& tensors);

}  // namespace lockstep::trainer
