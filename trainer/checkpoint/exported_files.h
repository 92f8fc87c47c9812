// What a checkpoint contains for other programs (Model::exported_files()).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "lockstep/model.h"

namespace lockstep::trainer {

// Writes what other programs read, from the tensors of the model that are in `directory`. `files`: the
// results of write_share() by file. Throws Environment.
void write_exported_files(const std::filesystem::path& directory, const ExportedFiles& exported,
                          const nlohmann::ordered_json& files);

// Called with the bytes that were written since the last call.
using OnBytes = std::function<void(uint64_t bytes)>;

// Copies files to `directory`, of any size, and syncs them. Throws Environment.
void copy_files(const std::vector<std::filesystem::path>& files,
                const std::filesystem::path& directory, const OnBytes& on_bytes = {});

}  // namespace lockstep::trainer
