// The base model of a run that trains only a part of its weights, e.g. adapters: checkpoints refer to
// its file instead of containing its weights. The file may be a compiled package.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/named_tensors.h"

namespace lockstep::trainer {

struct BaseWeights {
  std::string path;                           // absolute: safetensors, or an index; empty: none
  std::map<std::string, uint32_t> checksums;  // CRC-32C of each tensor of the base, in the file

  bool has(const std::string& name) const { return checksums.contains(name); }
  bool operator==(const BaseWeights&) const = default;
};

nlohmann::ordered_json describe_base(const BaseWeights& base);
BaseWeights parse_base(const nlohmann::ordered_json& json);

// The tensors of the safetensors file `path`, or of all files of the index `path`; mapped. Each must be
// in the file that the index names. Throws Environment.
NamedTensors read_weights(const std::filesystem::path& path);

// The checksum of a tensor's bytes. `tensor`: contiguous, on the CPU.
uint32_t checksum_of(const at::Tensor& tensor);

// Reads and verifies the tensors of a base model; mapped. Throws Config when the file is missing or
// has changed.
NamedTensors read_base(const BaseWeights& base);

}  // namespace lockstep::trainer
