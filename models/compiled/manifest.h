// What a compiled package says about itself: manifest.json, as lockstep-compile writes it
// (python/lockstep/packing.py). Torch-free, so that hostile bytes can be thrown at it alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// A tensor that a graph takes: a parameter, a buffer, or a field of a batch.
struct TensorSpec {
  std::string name;
  std::string dtype;           // as Python writes it: "float32", "int64", ...
  std::vector<int64_t> shape;  // of a field: of one sample
  bool marked = false;         // a parameter: is trained; a buffer: training changes it
};

struct PackageMember {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

// Inputs of both graphs: parameters, buffers, fields; training takes the weight of the loss behind
// them. Outputs of training: loss, sums, gradients of the trained parameters, changed buffers; of
// evaluation: loss, sums, predictions.
struct PackageManifest {
  std::string model;  // the Python class
  std::string torch, device, architecture, precision;
  std::vector<std::string> cpu_flags;  // instruction sets that its code may use
  int64_t batch_size = 0;              // of training
  bool dynamic_batch = false;          // training takes any size
  std::vector<TensorSpec> parameters, buffers, fields;
  std::vector<std::string> sums;
  bool predictions = false;
  std::map<std::string, PackageMember> members;
};

// `name` stands for the package in messages. Throws Config: no such JSON, an unknown format,
// something missing, of another type or out of range, a name
// that two tensors have, or a tensor and a module.
PackageManifest parse_package_manifest(std::string_view json, const std::string& name);

}  // namespace lockstep
