#include "tracking/sinks/protobuf_writer.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace lockstep;
using namespace lockstep::tracking;
using namespace std::string_literals;

TEST_CASE("protobuf writer: the examples of the format's specification") {
  ProtobufWriter writer;
  writer.varint(1, 150);
  CHECK(writer.take() == "\x08\x96\x01");
  writer.bytes(2, "testing");
  CHECK(writer.take() == "\x12\x07testing");
  ProtobufWriter inner;
  inner.varint(1, 150);
  writer.message(3, inner);
  CHECK(writer.take() == "\x1a\x03\x08\x96\x01");
  CHECK(writer.view().empty());
}

TEST_CASE("protobuf writer: numbers at their limits") {
  ProtobufWriter writer;
  writer.varint(1, std::numeric_limits<uint64_t>::max());
  CHECK(writer.take() == "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  writer.int64(1, -2);
  CHECK(writer.take() == "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  writer.int64(1, 0);
  CHECK(writer.take() == "\x08\x00"s);
  writer.sint64(1, -1);
  writer.sint64(1, 1);
  writer.sint64(1, std::numeric_limits<int64_t>::min());
  CHECK(writer.take() == "\x08\x01\x08\x02\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  writer.varint((1 << 29) - 1, 0);
  CHECK(writer.take() == "\xf8\xff\xff\xff\x0f\x00"s);
}

TEST_CASE("protobuf writer: fixed sizes are little endian") {
  ProtobufWriter writer;
  writer.fixed32(1, 0x04030201);
  CHECK(writer.take() == "\x0d\x01\x02\x03\x04");
  writer.fixed64(1, 0x0807060504030201);
  CHECK(writer.take() == "\x09\x01\x02\x03\x04\x05\x06\x07\x08");
  writer.float32(2, 1.0f);
  CHECK(writer.take() == "\x15\x00\x00\x80\x3f"s);
  writer.float64(2, -INFINITY);
  CHECK(writer.take() == "\x11\x00\x00\x00\x00\x00\x00\xf0\xff"s);
  writer.doubles(2, std::array{1.0, 2.0});
  CHECK(writer.take() ==
        "\x12\x10\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x00\x00\x40"s);
  writer.doubles(2, {});
  CHECK(writer.take().empty());
}
