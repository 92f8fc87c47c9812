// The file of a checkpoint that names the compiled package whose weights it has:
//   {"package": absolute path, "manifest_crc32": CRC-32 of its manifest.json}
#pragma once

namespace lockstep::models {

inline constexpr const char* kPackageReference = "compiled_package.json";

}  // namespace lockstep::models
