// What a rank is about to do, in a form that ranks compare before they touch each other's data:
// ranks that call different collectives would otherwise mix bytes in silence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::distributed::shm {

enum class Collective : uint8_t {
  Barrier,
  Broadcast,
  AllReduce,
  Reduce,
  AllGather,
  Gather,
  Scatter,
  ReduceScatter,
};

enum class ElementType : uint8_t {
  Bytes,  // moved, never added
  Bool,
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  BFloat16,
  Float32,
  Float64,
};

enum class Reduction : uint8_t { None, Sum, Average, Product, Min, Max, BitAnd, BitOr, BitXor };

struct Call {
  Collective kind = Collective::Barrier;
  ElementType type = ElementType::Bytes;
  Reduction reduction = Reduction::None;
  int32_t root = 0;
  uint64_t count = 0;  // elements per rank
  // Where in memory that all have mapped (SymmetricBuffer::address_of); 0: elsewhere. Ranks may differ in it.
  uint64_t place = 0;

  bool does_the_same(const Call& other) const {
    return kind == other.kind && type == other.type && reduction == other.reduction &&
           root == other.root && count == other.count;
  }
};

// "all_reduce of 4 float32 (sum)".
std::string describe(const Call& call);

size_t size_of(ElementType type);

}  // namespace lockstep::distributed::shm
