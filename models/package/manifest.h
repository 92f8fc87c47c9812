// What a compiled package says about itself: manifest.json, as lockstep-compile writes it
// (python/lockstep/packing.py). Torch-free, so that hostile bytes can be thrown at it alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::models {

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

// A part of training. Values are numbered: parameters, buffers, fields, the weight of the loss,
// then what the segments before keep. It takes those of `takes` and gives the gradients of so many
// trained parameters, those before the segments before, and `keeps` values. The first one has the
// last parameters, and gives loss, sums and targets before their gradients and the changed buffers
// behind them.
struct SegmentSpec {
  std::vector<int64_t> takes;
  int64_t gradients = 0, keeps = 0;
};

// The graph of evaluation takes parameters, buffers and fields and gives loss, sums, targets and
// predictions; that of counting takes fields and gives the targets.
struct PackageManifest {
  std::string model;  // the Python class
  std::string torch, device, architecture, precision;
  std::vector<std::string> cpu_flags;  // instruction sets that its code may use
  std::string gpu;                     // the architecture that its code is for, e.g. "sm_90"
  int64_t batch_size = 0;              // of training
  bool dynamic_batch = false;          // training takes any size
  int64_t largest_batch = 0;           // of those of any size; 0: no limit, or not noted
  std::vector<TensorSpec> parameters, buffers, fields;
  std::vector<SegmentSpec> segments;  // of training, in their order
  std::vector<std::string> sums;
  bool predictions = false;
  std::string targets;    // what loss and sums are over; empty: samples, and no graph counts them
  std::string all_count;  // then the field whose targets must all count; empty: none
  // The field that holds numbers of classes, and how many classes there are. Empty: none, or a
  // package of before this was noted.
  std::string class_field;
  int64_t num_classes = 0;
  std::map<std::string, PackageMember> members;
};

// `name` stands for the package in messages. Throws Config: no such JSON, an unknown format,
// something missing, of another type or out of range, a name
// that two tensors have, or a tensor and a module, segments that do not fit together.
PackageManifest parse_package_manifest(std::string_view json, const std::string& name);

}  // namespace lockstep::models
