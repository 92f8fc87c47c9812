#include "tracking/sinks/protobuf_writer.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "core/printable.h"

namespace lockstep::tracking {

namespace {

constexpr uint64_t kVarintWire = 0, kFixed64Wire = 1, kLengthWire = 2, kFixed32Wire = 5;

}  // namespace

std::string as_utf8(std::string_view text) {
  std::string valid;
  for (auto bad = find_invalid_utf8(text); bad != std::string_view::npos;
       bad = find_invalid_utf8(text)) {
    valid += text.substr(0, bad);
    valid += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[bad]));
    text.remove_prefix(bad + 1);
  }
  return valid.append(text);
}

void ProtobufWriter::varint(int field, uint64_t value) {
  tag(field, kVarintWire);
  raw_varint(value);
}

void ProtobufWriter::int64(int field, int64_t value) {
  varint(field, static_cast<uint64_t>(value));
}

void ProtobufWriter::sint64(int field, int64_t value) {
  varint(field, (static_cast<uint64_t>(value) << 1) ^ (value < 0 ? ~uint64_t{0} : 0));
}

void ProtobufWriter::fixed32(int field, uint32_t value) {
  tag(field, kFixed32Wire);
  little_endian(value);
}

void ProtobufWriter::fixed64(int field, uint64_t value) {
  tag(field, kFixed64Wire);
  little_endian(value);
}

void ProtobufWriter::float32(int field, float value) {
  fixed32(field, std::bit_cast<uint32_t>(value));
}

void ProtobufWriter::float64(int field, double value) {
  fixed64(field, std::bit_cast<uint64_t>(value));
}

void ProtobufWriter::doubles(int field, std::span<const double> values) {
  if (values.empty()) return;
  tag(field, kLengthWire);
  raw_varint(values.size_bytes());
  for (const double value : values) little_endian(std::bit_cast<uint64_t>(value));
}

void ProtobufWriter::bytes(int field, std::string_view value) {
  tag(field, kLengthWire);
  raw_varint(value.size());
  out_ += value;
}

void ProtobufWriter::message(int field, const ProtobufWriter& value) { bytes(field, value.out_); }

std::string ProtobufWriter::take() { return std::exchange(out_, {}); }

void ProtobufWriter::tag(int field, uint64_t wire_type) {
  raw_varint(static_cast<uint64_t>(field) << 3 | wire_type);
}

void ProtobufWriter::raw_varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
  out_ += static_cast<char>(value);
}

template <class T>
void ProtobufWriter::little_endian(T value) {
  for (size_t i = 0; i < sizeof value; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace lockstep::tracking
