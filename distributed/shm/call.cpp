#include "distributed/shm/call.h"

#include <fmt/format.h>

#include <array>

namespace lockstep::distributed::shm {
namespace {

constexpr std::array kCollectiveNames = {"barrier",    "broadcast", "all_reduce", "reduce",
                                         "all_gather", "gather",    "scatter",    "reduce_scatter"};
constexpr std::array kTypeNames = {"bytes", "bool",    "uint8",    "int8",    "int16",  "int32",
                                   "int64", "float16", "bfloat16", "float32", "float64"};
constexpr std::array kReductionNames = {"",    "sum", "average", "product", "min",
                                        "max", "and", "or",      "xor"};
constexpr std::array<size_t, 11> kSizes = {1, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8};

}  // namespace

std::string describe(const Call& call) {
  std::string text = kCollectiveNames[static_cast<size_t>(call.kind)];
  if (call.kind == Collective::Barrier) return text;
  text += fmt::format(" of {} {}", call.count, kTypeNames[static_cast<size_t>(call.type)]);
  if (call.reduction != Reduction::None)
    text += fmt::format(" ({})", kReductionNames[static_cast<size_t>(call.reduction)]);
  const bool rooted = call.kind == Collective::Broadcast || call.kind == Collective::Reduce ||
                      call.kind == Collective::Gather || call.kind == Collective::Scatter;
  if (rooted) text += fmt::format(" with root {}", call.root);
  return text;
}

size_t size_of(ElementType type) { return kSizes[static_cast<size_t>(type)]; }

}  // namespace lockstep::distributed::shm
