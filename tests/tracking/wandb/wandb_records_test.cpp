// Texts and records of a .wandb file for arbitrary names and values. wandb_upload_test.py tests how
// W&B's programs read them.
#include "tracking/sinks/wandb/wandb_records.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"
#include "tracking/sinks/protobuf_reader.h"
#include "tracking/sinks/wandb/wandb_digest.h"
#include "tracking/sinks/wandb/wandb_text.h"

namespace lockstep::tracking {

TEST_CASE("wandb text: any bytes become UTF-8, and valid text is unchanged") {
  CHECK(wandb_text("größe") == "größe");
  CHECK(wandb_text("a\xff\xfe"
                   "b") ==
        "a\xef\xbf\xbd\xef\xbf\xbd"
        "b");
  CHECK(wandb_text("\xc3") == "\xef\xbf\xbd");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  CHECK(find_invalid_utf8(wandb_text(all)) == std::string::npos);
  CHECK(wandb_text(std::string_view("a\0b", 3)) == std::string("a\0b", 3));
}

TEST_CASE("wandb key: names reserved by the history get a prefix") {
  CHECK(wandb_key("train/loss") == "train/loss");
  CHECK(wandb_key("step") == "metric/step");
  CHECK(wandb_key("epoch") == "metric/epoch");
  CHECK(wandb_key("_runtime") == "metric/_runtime");
  CHECK(wandb_key("") == "metric/");
  CHECK(wandb_key("steps") == "steps");
}

TEST_CASE("wandb number: reads back as the same value") {
  for (const double value : {0.1, -1e-300, 1e300, 5e-324, 123456789.0, -0.0})
    CHECK(std::strtod(wandb_number(value).c_str(), nullptr) == value);
  CHECK(wandb_number(std::nan("")) == "NaN");
  CHECK(wandb_number(std::numeric_limits<double>::infinity()) == "Infinity");
  CHECK(wandb_number(-std::numeric_limits<double>::infinity()) == "-Infinity");
  CHECK(wandb_number(3) == "3");
}

TEST_CASE("wandb json: invalid UTF-8 bytes are replaced") {
  CHECK(wandb_json({{"a", "\xff"}}) == "{\"a\":\"\xef\xbf\xbd\"}");
  CHECK(wandb_json(Json(std::nan(""))) == "NaN");
}

TEST_CASE("wandb json: numbers that are not finite stay what they are, also in lists and maps") {
  const auto infinity = std::numeric_limits<double>::infinity();
  const Json row = {"a\"b", std::nan(""), infinity, -infinity, 0.1, 1, 2.0, true, nullptr};
  CHECK(wandb_json({{"data", Json::array({row})}, {"none", Json::object()}}) ==
        R"({"data":[["a\"b",NaN,Infinity,-Infinity,0.1,1,2.0,true,null]],"none":{}})");
  CHECK(wandb_json(Json::array()) == "[]");
}

TEST_CASE("wandb run id: at most 64 of a-z, 0-9, _ and -, and different for different ids") {
  CHECK(wandb_run_id("mnist-20261121-060309-4f2a9c") == "mnist-20261121-060309-4f2a9c");
  CHECK(wandb_run_id("A.b") != wandb_run_id("a-b"));
  CHECK(wandb_run_id("A.b").starts_with("a-b-"));
  CHECK(wandb_run_id(std::string(65, 'x')).size() == 64);
  CHECK(wandb_run_id(std::string(65, 'x')) != wandb_run_id(std::string(66, 'x')));
  CHECK(wandb_run_id("A.b") == wandb_run_id("A.b"));
  CHECK(wandb_run_id("").starts_with("run-"));
}

TEST_CASE("wandb client id: 128 lower-case characters, the same for the same artifact") {
  const auto id = wandb_client_id("run/model/v1");
  CHECK(id.size() == 128);
  CHECK(id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz") == std::string::npos);
  CHECK(id == wandb_client_id("run/model/v1"));
  CHECK(id != wandb_client_id("run/model/v2"));
}

TEST_CASE("wandb digests: empty and known contents") {
  TemporaryDirectory directory;
  write_file_durably(directory / "hello", "hello");
  write_file_durably(directory / "empty", "");
  CHECK(md5_base64(directory / "hello") == "XUFAKrxLKna5cZ2REBfFkg==");
  CHECK(md5_base64(directory / "empty") == "1B2M2Y8AsgTpgAmY7PhCfg==");
  CHECK_THROWS_AS(md5_base64(directory / "absent"), Error);
}

TEST_CASE("wandb record: number, body, and the request for a response that old versions need") {
  const auto record = wandb_record(7, WandbRecord::Exit, wandb_exit({}, 2.9));
  ProtobufReader reader(record);
  CHECK(reader.next()->value == 7);
  const auto body = reader.next();
  CHECK(body->number == 18);
  ProtobufReader exit(body->bytes);
  CHECK(exit.next()->value == 0);
  CHECK(exit.next()->value == 2);
  CHECK(reader.next()->number == 16);
  CHECK(!reader.next());
}

TEST_CASE("protobuf reader: any bytes give fields or an error, never a read beyond the end") {
  const auto good = wandb_record(1, WandbRecord::Alert, wandb_alert({.title = "a", .text = "b"}));
  for (size_t size = 0; size < good.size(); ++size) {
    ProtobufReader reader(std::string_view(good).substr(0, size));
    try {
      while (reader.next()) {
      }
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Environment);
    }
  }
  CHECK_THROWS_AS(ProtobufReader("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").next(), Error);
  CHECK_THROWS_AS(ProtobufReader("\x08").next(), Error);
  CHECK_THROWS_AS(ProtobufReader("\x03").next(), Error);  // a group
}

}  // namespace lockstep::tracking
