// A compiled package (model.ls2): a zip archive with graphs, weights and a manifest, written by
// lockstep-compile. docs/compiled.md describes the format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/mapped_file.h"
#include "formats/safetensors_header.h"
#include "formats/zip_file.h"
#include "models/package/manifest.h"

namespace lockstep::models {

// Properties of this machine on which compiled code depends.
struct HostFacts {
  std::string torch;         // version of the LibTorch in this process
  std::string architecture;  // as in `uname -m`
  std::vector<std::string> cpu_flags;
};
HostFacts host_facts(const std::string& torch_version);

// The library of a graph, and the description of operators without a C interface; empty if there
// are none.
struct GraphFiles {
  std::vector<uint8_t> library;
  std::vector<uint8_t> operators;
};

// No LibTorch. Thread: not thread-safe. The file is mapped, so that weights need no memory.
class CompiledPackage {
 public:
  // Reads and verifies the file: the set of members, safe member paths, sizes, checksums, and
  // weights that match the manifest. Throws Config, or Environment if the file cannot be read.
  explicit CompiledPackage(const std::string& path);

  // A package in memory, for tests; `bytes` must outlive it.
  CompiledPackage(std::span<const uint8_t> bytes, const std::string& name);

  // Throws Config if the code cannot run on this machine: a different LibTorch or architecture, or
  // missing instruction sets.
  void verify_host(const HostFacts& host) const;

  const std::string& name() const { return name_; }
  const PackageManifest& manifest() const { return manifest_; }
  // Of manifest.json, which has the checksums of all other members: different for any other package.
  uint32_t manifest_crc32() const { return manifest_crc32_; }

  // The segments of each.
  std::vector<GraphFiles> training() const;
  std::vector<GraphFiles> evaluation() const;

  // `kind`: "count" if there are targets, or the member of a segment. Throws Config if it is not an archive as
  // written by torch.
  GraphFiles graph(const std::string& kind) const;

  // Copies the value of a parameter or buffer from the file. Thread: may be called concurrently.
  // Throws Environment if the file has been changed.
  void copy_weight(const std::string& name, void* target) const;

 private:
  void read(std::span<const uint8_t> bytes);
  std::vector<uint8_t> member(const std::string& name) const;
  size_t member_index(const std::string& name) const;
  void verify_content(const std::string& name, std::span<const uint8_t> content) const;
  void verify_weights() const;

  std::string name_;
  std::unique_ptr<formats::MappedFile> file_;
  std::unique_ptr<formats::ZipFile> archive_;
  std::vector<std::string> members_;
  PackageManifest manifest_;
  uint32_t manifest_crc32_ = 0;
  std::span<const uint8_t> weights_;  // in the file
  std::vector<formats::TensorEntry> entries_;
};

}  // namespace lockstep::models
