#include "tracking/sinks/protobuf_reader.h"

#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

Error malformed_protobuf() { return environment_error("malformed protobuf in a response"); }

}  // namespace

std::optional<ProtobufField> ProtobufReader::next() {
  if (rest_.empty()) return std::nullopt;
  const auto tag = varint();
  if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) throw malformed_protobuf();
  ProtobufField field{.number = static_cast<int>(tag >> 3)};
  switch (tag & 7) {
    case 0: field.value = varint(); break;
    case 1: field.value = fixed(8); break;
    case 2: field.bytes = read_bytes(varint()); break;
    case 5: field.value = fixed(4); break;
    default: throw malformed_protobuf();
  }
  return field;
}

uint64_t ProtobufReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(read_bytes(1).front());
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  throw malformed_protobuf();
}

std::string_view ProtobufReader::read_bytes(uint64_t size) {
  if (size > rest_.size()) throw malformed_protobuf();
  const auto bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return bytes;
}

uint64_t ProtobufReader::fixed(size_t size) {
  uint64_t value = 0;
  unsigned shift = 0;
  for (const auto byte : read_bytes(size)) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(byte)) << shift;
    shift += 8;
  }
  return value;
}

}  // namespace lockstep::tracking
