// Options of data-parallel training. Defaults are those of Python's DistributedDataParallel.
#pragma once

#include <optional>
#include <string>

#include "core/config/config_fields.h"

namespace lockstep {

// Values of gradient_compression.
inline constexpr const char *kNoCompression = "none", *kCompressToFp16 = "fp16",
                            *kCompressToBf16 = "bf16";

struct DataParallelConfig {
  std::optional<double> bucket_cap_mb;  // MiB; nothing: 25, the first bucket 1
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  std::string gradient_compression = kNoCompression;
};

template <class V>
void fields(V& v, DataParallelConfig& c) {
  v("bucket_cap_mb", c.bucket_cap_mb,
    "size of a gradient bucket in MiB (nothing: 25, the first one 1)", above(0), at_most(1 << 20));
  v("find_unused_parameters", c.find_unused_parameters,
    "look for parameters that a step did not use");
  v("static_graph", c.static_graph,
    "promise that every step uses the same parameters in the same way");
  v("gradient_as_bucket_view", c.gradient_as_bucket_view,
    "let gradients live in the buckets (saves one copy)");
  v("broadcast_buffers", c.broadcast_buffers,
    "send buffers (e.g. BatchNorm's) from rank 0 before each forward");
  v("gradient_compression", c.gradient_compression,
    "send gradients as 16-bit floats, as Python's fp16_compress_hook and bf16_compress_hook: half "
    "the traffic between hosts, less precise sums",
    one_of({kNoCompression, kCompressToFp16, kCompressToBf16}));
}

}  // namespace lockstep
