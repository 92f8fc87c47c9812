// Writes messages in the Protocol Buffers wire format, field by field and without schemas, for
// TensorBoard, W&B and OTLP. Source: https://protobuf.dev/programming-guides/encoding
//
// Default values are written too (proto3 permits both). Field numbers are 1 to 2^29 - 1. Writing a
// field number again adds an element of a repeated field. String fields must be UTF-8: readers
// reject the whole message otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::tracking {

// Returns `text` with invalid UTF-8 bytes written as "\xff".
std::string as_utf8(std::string_view text);

class ProtobufWriter {
 public:
  void varint(int field, uint64_t value);  // uint32, uint64, bool, enum
  void int64(int field, int64_t value);    // int32, int64: a negative number takes ten bytes
  void sint64(int field, int64_t value);   // sint32, sint64: zigzag
  void fixed32(int field, uint32_t value);
  void fixed64(int field, uint64_t value);
  void float32(int field, float value);           // NaN and infinities are kept
  void float64(int field, double value);          // NaN and infinities are kept
  void bytes(int field, std::string_view value);  // string, bytes
  // Packed doubles; writes nothing if empty.
  void doubles(int field, std::span<const double> values);
  // One entry of a map is the message {1: key, 2: value}.
  void message(int field, const ProtobufWriter& value);

  // The encoded bytes; valid until the next call.
  std::string_view view() const { return out_; }
  // Returns the encoded bytes and clears the writer.
  std::string take();

 private:
  void tag(int field, uint64_t wire_type);
  void raw_varint(uint64_t value);
  template <class T>
  void little_endian(T value);

  std::string out_;
};

}  // namespace lockstep::tracking
