// What other folders know about compiled packages. No LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lockstep::models {

// The file of a checkpoint that names the package that the run trained:
//   {"package": absolute path, "manifest_crc32": CRC-32 of its manifest.json}
// and with adapters "model_config": the content of config.json of models with merged adapters.
inline constexpr const char* kPackageReference = "compiled_package.json";

// Whether the file begins like a package, and not like a safetensors file.
bool may_be_package(std::span<const uint8_t> file);

// The safetensors file with the weights of a package, in the bytes of the package; its checksum is not
// verified. `name`: of the file, for messages. Throws Config if there is none.
std::span<const uint8_t> weights_of_package(std::span<const uint8_t> file, const std::string& name);

}  // namespace lockstep::models
