// A compiled package (model.ls2): a zip archive of graphs, weights and a manifest, made by
// lockstep-compile. docs/compiled.md describes it.
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

// What a machine offers to compiled code.
struct HostFacts {
  std::string torch;         // version of the LibTorch in this process
  std::string architecture;  // as `uname -m`
  std::vector<std::string> cpu_flags;
};
HostFacts host_facts(const std::string& torch_version);

// The library of a graph, and what describes its operators that have no C interface; empty when
// there are none.
struct GraphFiles {
  std::vector<uint8_t> library;
  std::vector<uint8_t> operators;
};

// Torch-free. Thread: one at a time.
class CompiledPackage {
 public:
  // Reads the whole file and verifies it: every member there and no other, names that stay inside,
  // sizes and checksums, weights that are those of the manifest. Throws Config, or Environment when
  // the file cannot be read.
  explicit CompiledPackage(const std::string& path);

  // A package in memory, for tests; `bytes` outlive it.
  CompiledPackage(std::span<const uint8_t> bytes, const std::string& name);

  // Throws Config when its code cannot run here: another LibTorch, architecture or instruction set.
  void verify_host(const HostFacts& host) const;

  const std::string& name() const { return name_; }
  const PackageManifest& manifest() const { return manifest_; }

  // The segments of training.
  std::vector<GraphFiles> training() const;

  // `kind`: "eval", or "count" where there are targets. Throws Config: no archive as torch writes
  // it.
  GraphFiles graph(const std::string& kind) const;

  // Parameters and buffers, with their place in weights().
  const std::vector<formats::TensorEntry>& weight_entries() const { return entries_; }
  std::span<const uint8_t> weights() const { return weights_; }

 private:
  void read(std::span<const uint8_t> bytes);
  std::vector<uint8_t> member(const std::string& name) const;
  void verify_weights() const;

  std::string name_;
  std::unique_ptr<formats::MappedFile> file_;
  std::unique_ptr<formats::ZipFile> archive_;
  std::vector<std::string> members_;
  PackageManifest manifest_;
  std::vector<uint8_t> weights_;
  std::vector<formats::TensorEntry> entries_;
};

}  // namespace lockstep::models
