// The manifest of a compiled package: manifest.json, as written by lockstep-compile
// (python/lockstep/compile/packing.py). No LibTorch, so that it can be fuzzed separately.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::models {

// A tensor input of a graph: a parameter, a buffer, or a field of a batch.
struct TensorSpec {
  std::string name;
  std::string dtype;           // as in Python: "float32", "int64", ...
  std::vector<int64_t> shape;  // for a field, the shape of one sample
  bool marked = false;         // parameter: trainable; buffer: changed by training
};

struct PackageMember {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

// A segment of the training or evaluation graph. Values are numbered: parameters, buffers, fields,
// in training the weight of the loss, then the values kept by previous segments. A segment takes the
// values `takes` and returns the gradients of `gradients` trainable parameters, which precede those
// of the previous segment, and `keeps` values for later segments.
//
// In training, the first segments may be parts of the forward pass, without gradients. The next one
// handles the last parameters; it returns loss, sums and targets before the gradients, and changed
// buffers after them. The last segment of evaluation returns loss, sums, targets and predictions.
//
// A batch of B samples takes flops[0] + flops[1] B + flops[2] B^2 + ... floating-point operations, in
// training only; empty: not recorded.
struct SegmentSpec {
  std::vector<int64_t> takes;
  int64_t gradients = 0, keeps = 0;
  std::vector<double> flops;
};

// Adapters of PEFT, whose other weights are not trained.
struct AdapterSpec {
  std::string config;                          // the content of adapter_config.json
  std::map<std::string, std::string> tensors;  // their names in adapter_model.safetensors
  std::string model_config;                    // the content of config.json; empty: unknown
};

// The counting graph takes fields and returns the number of targets.
struct PackageManifest {
  std::string model;  // the Python class
  std::string torch, device, architecture, precision;
  std::vector<std::string> cpu_flags;  // instruction sets that the code may use
  std::string gpu;                     // GPU architecture of the code, e.g. "sm_90"
  int64_t batch_size = 0;              // of training
  bool dynamic_batch = false;          // training accepts any batch size
  int64_t largest_batch = 0;           // limit of dynamic batch sizes; 0: none, or not recorded
  std::vector<TensorSpec> parameters, buffers, fields;
  std::vector<SegmentSpec> segments;    // of training, in their order
  std::vector<SegmentSpec> evaluation;  // the same of evaluation
  std::vector<std::string> units;       // modules between which the graphs are cut; may be empty
  std::vector<std::string> sums;
  bool predictions = false;
  std::string targets;    // unit of loss and sums; empty: samples, and there is no counting graph
  std::string all_count;  // if so, the field that must not have ignored targets; empty: none
  // The field with class labels, and the number of classes. Empty: none, or not recorded.
  std::string class_field;
  int64_t num_classes = 0;
  std::optional<AdapterSpec> adapter;
  std::map<std::string, PackageMember> members;
};

// `name` is used as the package name in messages. Throws Config: invalid JSON, an unknown format, a
// member that is missing, of the wrong type or out of range, a duplicate tensor name, a name of
// both a tensor and a module, or inconsistent segments.
PackageManifest parse_package_manifest(std::string_view json, const std::string& name);

}  // namespace lockstep::models
