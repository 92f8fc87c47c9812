// Description of a collective call. Ranks compare theirs before they touch each other's data: a
// mismatch would otherwise silently mix bytes.
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
  Bytes,  // opaque: moved, never reduced
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
  // Of the array in a symmetric buffer (SymmetricBuffer::address_of); 0: it is not in one. May
  // differ between ranks.
  uint64_t symmetric_address = 0;

  // Compares everything but the address.
  bool matches(const Call& other) const {
    return kind == other.kind && type == other.type && reduction == other.reduction &&
           root == other.root && count == other.count;
  }
};

// "all_reduce of 4 float32 (sum)".
std::string describe(const Call& call);

size_t size_of(ElementType type);

// A view of contiguous elements of one type.
struct Array {
  std::byte* data = nullptr;
  size_t count = 0;
  ElementType type = ElementType::Bytes;

  size_t bytes() const { return count * size_of(type); }
};

}  // namespace lockstep::distributed::shm
