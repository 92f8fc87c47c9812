// Fields of flatbuffers, as in the headers of Arrow's messages.
// Source: the binary format of FlatBuffers (google/flatbuffers, "Internals").
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace lockstep::formats {

// A table of a flatbuffer that Arrow verified when it opened the message. Arrow's own accessors are
// not public.
class FlatTable {
 public:
  explicit FlatTable(const void* table) : at_(static_cast<const uint8_t*>(table)) {}
  // The table that a flatbuffer begins with.
  static FlatTable root(const uint8_t* buffer) {
    return FlatTable(buffer + load<uint32_t>(buffer));
  }

  bool has(int field) const { return place_of(field) != nullptr; }
  int64_t number(int field) const {
    const auto* place = place_of(field);
    return place ? load<int64_t>(place) : 0;
  }
  FlatTable table(int field) const {
    const auto* place = place_of(field);
    return FlatTable(place + load<uint32_t>(place));
  }
  // A vector of structs {int64 offset, int64 length}.
  std::vector<std::pair<int64_t, int64_t>> ranges(int field) const {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const auto* item : structs(field, 16))
      ranges.emplace_back(load<int64_t>(item), load<int64_t>(item + sizeof(int64_t)));
    return ranges;
  }
  // Of a vector of structs Block {int64 offset, int32 metadata length, int64 body length}.
  std::vector<int64_t> block_offsets(int field) const {
    std::vector<int64_t> offsets;
    for (const auto* item : structs(field, 24)) offsets.push_back(load<int64_t>(item));
    return offsets;
  }

 private:
  template <class T>
  static T load(const uint8_t* from) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return value;
  }
  // The items of a vector of structs, each of `size` bytes.
  std::vector<const uint8_t*> structs(int field, size_t size) const {
    std::vector<const uint8_t*> items;
    const auto* place = place_of(field);
    if (!place) return items;
    const auto* all = place + load<uint32_t>(place);
    for (uint32_t i = 0; i < load<uint32_t>(all); ++i)
      items.push_back(all + sizeof(uint32_t) + size * i);
    return items;
  }
  const uint8_t* place_of(int field) const {
    const auto* fields = at_ - load<int32_t>(at_);
    const auto entry = 2 * sizeof(uint16_t) + sizeof(uint16_t) * static_cast<size_t>(field);
    if (entry + sizeof(uint16_t) > load<uint16_t>(fields)) return nullptr;
    const auto offset = load<uint16_t>(fields + entry);
    return offset == 0 ? nullptr : at_ + offset;
  }

  const uint8_t* at_;
};

}  // namespace lockstep::formats
