#include "trainer/checkpoint/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "core/system/crc32c.h"
#include "core/system/durable_file.h"
#include "formats/safetensors_header.h"
#include "formats/safetensors_index.h"
#include "lockstep/error.h"
#include "tests/failing_calls.h"
#include "tests/temporary_directory.h"
#include "trainer/checkpoint/checkpoint_keeping.h"
#include "trainer/checkpoint/checkpoint_shares.h"
#include "trainer/checkpoint/safetensors.h"

using namespace lockstep;
using namespace lockstep::trainer;
namespace fs = std::filesystem;

namespace {

Checkpoint sample(int64_t step) {
  return {.head = {.position = {step, 1, 7, 2},
                   .world_size = 2,
                   .early_stop = {"loss", "min", 0.1 + 0.2, 3},
                   .evaluation_is_due = true,
                   .gradient_order = {"b", "a"}},
          .model = {{"b", at::arange(6, at::kFloat).view({2, 3}) + step},
                    {"a", at::scalar_tensor(step, at::kLong)}},
          .optimizer = {{"momentum_buffer.b", at::full({2, 3}, 0.25)}},
          .rng = {{"rank.0", at::full({16}, 7, at::kByte)}, {"rank.1", at::zeros({0}, at::kByte)}}};
}

// Writes a checkpoint in `count` shares, the last one first.
void write_checkpoint(const fs::path& checkpoints, const Checkpoint& checkpoint, int count = 1) {
  ShareOptions options{.index = 0, .count = count, .attempt = "test"};
  std::vector<nlohmann::ordered_json> written(static_cast<size_t>(count));
  for (int i = count - 1; i >= 0; --i) {
    options.index = i;
    written[static_cast<size_t>(i)] =
        write_share(checkpoints, take_share(checkpoint, i, count), options);
  }
  commit_checkpoint(checkpoints, checkpoint.head, written, options);
}

std::map<std::string, at::Tensor> by_name(const NamedTensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

void flip_byte(const fs::path& path, std::streamoff offset_from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-offset_from_end, std::ios::end);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-offset_from_end, std::ios::end);
  file.put(byte);
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string safetensors_bytes(const std::string& header, size_t data_bytes) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(data_bytes, '\1');
}

}  // namespace

TEST_CASE("checkpoint: round trip, in the order of the module") {
  const TemporaryDirectory directory;
  write_checkpoint(directory / "checkpoints", sample(40));
  const auto read = read_checkpoint(directory / "checkpoints", 40);
  const auto written = sample(40);
  CHECK(read.head == written.head);
  for (const auto& [mine, theirs] : {std::pair{read.model, written.model},
                                     {read.optimizer, written.optimizer},
                                     {read.rng, written.rng}}) {
    REQUIRE(mine.size() == theirs.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      CHECK(mine[i].first == theirs[i].first);
      CHECK(mine[i].second.scalar_type() == theirs[i].second.scalar_type());
      CHECK(at::equal(mine[i].second, theirs[i].second));
    }
  }
}

TEST_CASE("checkpoint: older formats are read, unknown formats are rejected with their number") {
  const auto head = describe_head(sample(40).head);
  auto older = head;
  for (const auto* key : {"early_stop", "evaluation_is_due", "gradient_order"}) older.erase(key);
  const CheckpointHead expected{.position = sample(40).head.position, .world_size = 2};
  CHECK(read_head(older) == expected);
  CHECK(read_head(head) == sample(40).head);

  const TemporaryDirectory directory;
  write_checkpoint(directory / "checkpoints", sample(40));
  const auto path = directory / "checkpoints/40/manifest.json";
  auto manifest = nlohmann::ordered_json::parse(read_file(path));
  const auto write_with_format = [&](int format) {
    manifest["content"]["format"] = format;
    const auto text = manifest["content"].dump();
    manifest["crc32c"] = crc32c(text.data(), text.size());
    std::ofstream(path) << manifest.dump();
  };
  write_with_format(2);
  CHECK_NOTHROW(read_checkpoint(directory / "checkpoints", 40));
  write_with_format(99);
  CHECK_THROWS_WITH(read_checkpoint(directory / "checkpoints", 40),
                    Catch::EndsWith("manifest.json: written by a later version of Lockstep "
                                    "(checkpoint format 99; this one reads 2 to 5)"));
  write_with_format(1);
  CHECK_THROWS_WITH(read_checkpoint(directory / "checkpoints", 40),
                    Catch::Contains("by an earlier version of Lockstep (checkpoint format 1;"));
  std::vector<std::string> rejected;
  const auto kind_of_failure = [&] {
    try {
      read_last_good_checkpoint(directory / "checkpoints", rejected);
    } catch (const Error& error) {
      return kind_name(error.kind());
    }
    return "none";
  };
  CHECK(kind_of_failure() == std::string("config"));
  write_checkpoint(directory / "checkpoints", sample(41));
  flip_byte(directory / "checkpoints/41/model.safetensors", 3);
  CHECK(kind_of_failure() == std::string("environment"));
}

TEST_CASE("checkpoint: same step is replaced, leftovers of a kill are removed") {
  const TemporaryDirectory directory;
  fs::create_directories(directory / "checkpoints/.tmp-40-123");
  write_checkpoint(directory / "checkpoints", sample(40));
  auto other = sample(40);
  other.head.position.samples = 9;
  write_checkpoint(directory / "checkpoints", other);
  CHECK(read_checkpoint(directory / "checkpoints", 40).head.position.samples == 9);
  size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(directory / "checkpoints"))
    entries += !entry.path().empty();
  CHECK(entries == 1);
}

TEST_CASE("checkpoint: the latest valid one is used, and corruption is reported") {
  const TemporaryDirectory directory;
  const auto checkpoints = directory / "checkpoints";
  for (const int64_t step : {10, 20, 30}) write_checkpoint(checkpoints, sample(step));
  flip_byte(checkpoints / "30/model.safetensors", 3);
  flip_byte(checkpoints / "20/manifest.json", 40);
  std::vector<std::string> rejected;
  const auto found = read_last_good_checkpoint(checkpoints, rejected);
  REQUIRE(found);
  CHECK(found->head.position.step == 10);
  REQUIRE(rejected.size() == 2);
  CHECK_THAT(rejected[0], Catch::Contains("checkpoint 30 cannot be used") &&
                              Catch::Contains("tensor 'a' is corrupt"));
  CHECK_THAT(rejected[1], Catch::Contains("20/manifest.json: corrupt"));

  fs::resize_file(checkpoints / "10/optimizer.safetensors", 20);
  rejected.clear();
  CHECK_THROWS_WITH(read_last_good_checkpoint(checkpoints, rejected),
                    Catch::Contains("none of the 3 checkpoints"));
}

TEST_CASE("checkpoint: several shares read the same as one, with an index of files") {
  for (const int count : {2, 3, 5}) {
    const TemporaryDirectory directory;
    write_checkpoint(directory / "c", sample(40), count);
    const auto read = read_checkpoint(directory / "c", 40);
    const auto written = sample(40);
    CHECK(read.head == written.head);
    for (const auto& file : kTensorFiles) {
      const auto mine = by_name(read.*file.tensors), theirs = by_name(written.*file.tensors);
      CHECK((read.*file.tensors).size() == (written.*file.tensors).size());
      REQUIRE(mine.size() == theirs.size());
      for (const auto& [name, tensor] : mine) CHECK(at::equal(tensor, theirs.at(name)));
    }
    const auto path = directory / "c/40/model.safetensors.index.json";
    const auto index = formats::parse_safetensors_index(read_file(path), "index");
    CHECK(index.size() == written.model.size());
    for (const auto& [name, file] : index)
      CHECK(by_name(read_safetensors(directory / "c/40" / file)).contains(name));
    CHECK(nlohmann::json::parse(read_file(path))["metadata"]["total_size"] ==
          bytes_of(written.model));
  }
}

TEST_CASE("checkpoint: a missing, modified or foreign share is reported") {
  const TemporaryDirectory directory;
  const auto corrupt = [&](const std::function<void(const fs::path&)>& damage) {
    write_checkpoint(directory / "c", sample(40), 2);
    damage(directory / "c/40");
    std::vector<std::string> rejected;
    CHECK_THROWS_AS(read_last_good_checkpoint(directory / "c", rejected), Error);
    return rejected.at(0);
  };
  const std::string name = "model-00002-of-00002.safetensors";
  CHECK_THAT(corrupt([&](const fs::path& step) { fs::remove(step / name); }),
             Catch::Contains(name) && Catch::Contains("No such file"));
  CHECK_THAT(corrupt([&](const fs::path& step) { flip_byte(step / name, 3); }),
             Catch::Contains(name) && Catch::Contains("is corrupt"));
  CHECK_THAT(corrupt([&](const fs::path& step) {
               fs::remove(step / name);
               fs::copy(step / "model-00001-of-00002.safetensors", step / name);
             }),
             Catch::Contains(name) && Catch::Contains("tensors, expected"));
}

TEST_CASE("checkpoint: a failed share removes the other shares") {
  const TemporaryDirectory directory;
  const auto checkpoint = sample(40);
  write_checkpoint(directory / "c", sample(30));
  write_share(directory / "c", take_share(checkpoint, 0, 2), {.count = 2, .attempt = "x"});
  fs::create_directory(directory / "c/.tmp-40-x/model-00002-of-00002.safetensors");
  CHECK_THROWS_AS(write_share(directory / "c", take_share(checkpoint, 1, 2),
                              {.index = 1, .count = 2, .attempt = "x"}),
                  Error);
  CHECK(std::distance(fs::directory_iterator(directory / "c"), {}) == 1);
  CHECK(read_checkpoint(directory / "c", 30).head.position.step == 30);
}

TEST_CASE("checkpoint: shares are balanced; tensors of the main rank are in the first") {
  Checkpoint checkpoint{.rng = {{"rank.0", at::zeros({16}, at::kByte)}}, .main_only = {"mean"}};
  for (int i = 0; i < 10; ++i) {
    const auto tensor = at::zeros({100 * (i % 3 + 1)});
    checkpoint.model.emplace_back(std::to_string(i), tensor);
    checkpoint.optimizer.emplace_back("of." + std::to_string(i), tensor);
  }
  checkpoint.model.emplace_back("mean", at::zeros({300}));
  const auto all = bytes_of(checkpoint.model) + bytes_of(checkpoint.optimizer);
  size_t num_tensors = 0;
  for (const int index : {0, 1, 2}) {
    const auto share = take_share(checkpoint, index, 3);
    const auto bytes = bytes_of(share.model) + bytes_of(share.optimizer);
    CHECK(bytes <= all / 3 + 400);
    CHECK(bytes + 800 >= all / 3);
    CHECK(by_name(share.model).contains("mean") == (index == 0));
    CHECK(share.rng.size() == (index == 0 ? 1 : 0));
    CHECK(std::ranges::is_sorted(share.model, {}, &NamedTensors::value_type::first));
    num_tensors += share.model.size() + share.optimizer.size();
  }
  CHECK(num_tensors == 21);
}

TEST_CASE("safetensors index: invalid indexes and paths out of the directory are rejected") {
  const auto refuse = [](const std::string& text, const std::string& reason) {
    CHECK_THROWS_WITH(formats::parse_safetensors_index(text, "x"), Catch::Contains(reason));
  };
  refuse("", "not an index of safetensors files");
  refuse(R"({"weight_map": 3})", "not an index of safetensors files");
  refuse(R"({"weight_map": {"a": 3}})", "tensor 'a': expected a plain file name, got 3");
  refuse(R"({"weight_map": {"a": "../b"}})", "expected a plain file name");
  refuse(R"({"weight_map": {"a": "/etc/b"}})", "expected a plain file name");
  refuse(R"({"weight_map": {"a": ""}})", "expected a plain file name");
}

TEST_CASE("checkpoint: every truncation of every file is detected") {
  const TemporaryDirectory directory;
  for (const auto* name :
       {"model.safetensors", "optimizer.safetensors", "rng.safetensors", "manifest.json"}) {
    write_checkpoint(directory / "checkpoints", sample(1));
    const auto path = directory / "checkpoints/1" / name;
    for (auto size = static_cast<int64_t>(fs::file_size(path)) - 2; size >= 0; size -= 7) {
      fs::resize_file(path, static_cast<uintmax_t>(size));
      CHECK_THROWS_AS(read_checkpoint(directory / "checkpoints", 1), Error);
    }
  }
}

TEST_CASE("checkpoint: no checkpoint is not an error, old ones are pruned") {
  const TemporaryDirectory directory;
  std::vector<std::string> rejected;
  CHECK_FALSE(read_last_good_checkpoint(directory / "checkpoints", rejected));
  for (const int64_t step : {1, 20, 3}) write_checkpoint(directory / "checkpoints", sample(step));
  const auto left = [&] { return list_checkpoints(directory / "checkpoints"); };
  prune_checkpoints(directory / "checkpoints", 20, {.last = 2});
  CHECK(left() == std::vector<int64_t>{3, 20});
  // A run that was restarted from scratch in the same directory: its own checkpoint is kept, those
  // of later steps are removed.
  write_checkpoint(directory / "checkpoints", sample(5));
  prune_checkpoints(directory / "checkpoints", 5, {.last = 2});
  CHECK(left() == std::vector<int64_t>{3, 5});
  prune_checkpoints(directory / "checkpoints", 5, {.last = 1});
  CHECK(left() == std::vector<int64_t>{5});
}

TEST_CASE("checkpoint: the latest, the best and milestones are kept") {
  const TemporaryDirectory directory;
  const auto checkpoints = directory / "checkpoints";
  const std::map<int64_t, double> losses = {{10, 0.5}, {20, 0.3}, {30, 0.4}, {40, 0.3}, {50, 0.9}};
  for (const auto& [step, loss] : losses) {
    auto checkpoint = sample(step);
    checkpoint.head.position = {.step = step, .epoch = step / 10, .samples = step == 40 ? 7 : 0};
    checkpoint.head.evaluation = {{"loss", loss}, {"accuracy", 1 - loss}};
    write_checkpoint(checkpoints, checkpoint);
  }
  auto without_evaluation = sample(60);
  without_evaluation.head.evaluation.clear();
  write_checkpoint(checkpoints, without_evaluation);
  const auto left = [&](const KeepOptions& keep) {
    const TemporaryDirectory copy;
    fs::copy(checkpoints, copy / "c", fs::copy_options::recursive);
    prune_checkpoints(copy / "c", 60, keep);
    return list_checkpoints(copy / "c");
  };
  using Steps = std::vector<int64_t>;
  CHECK(left({.last = 1, .best = {.count = 1}}) == Steps{20, 60});
  CHECK(left({.last = 1, .best = {.count = 2}}) == Steps{20, 40, 60});
  CHECK(left({.last = 1, .best = {.count = 1, .metric = "loss", .mode = MetricMode::Max}}) ==
        Steps{50, 60});
  CHECK(left({.last = 2, .best = {.count = 1, .metric = "accuracy", .mode = MetricMode::Max}}) ==
        Steps{20, 50, 60});
  CHECK(left({.last = 1, .every = Period{2, Period::Unit::Epochs}}) == Steps{20, 60});
  CHECK(left({.last = 1, .every = Period{30, Period::Unit::Steps}}) == Steps{30, 60});
  fs::resize_file(checkpoints / "20/manifest.json", 5);
  CHECK(left({.last = 1, .best = {.count = 1}}) == Steps{40, 60});
}

TEST_CASE("checkpoint: is saved, and replaced, on file systems that cannot exchange names") {
  const TemporaryDirectory directory;
  const auto checkpoints = directory / "checkpoints";
  const auto error = without_rename_flags([&] {
    write_checkpoint(checkpoints, sample(1));
    auto again = sample(1);
    again.head.position.epoch = 5;
    write_checkpoint(checkpoints, again);
  });
  if (!error) {
    WARN("no seccomp filter: not tested");
    return;
  }
  if (*error) std::rethrow_exception(*error);
  CHECK(read_checkpoint(checkpoints, 1).head.position.epoch == 5);
  CHECK(std::distance(fs::directory_iterator(checkpoints), fs::directory_iterator()) == 1);
}

TEST_CASE("checkpoint: a directory that cannot be listed is not one without checkpoints") {
  const TemporaryDirectory directory;
  std::ofstream(directory / "checkpoints") << "a file";
  CHECK_THROWS_WITH(list_checkpoints(directory / "checkpoints"), Catch::Contains("cannot list "));
}

TEST_CASE("checkpoint: a best one of another version of Lockstep is not removed") {
  const TemporaryDirectory directory;
  const auto checkpoints = directory / "checkpoints";
  for (const int64_t step : {1, 2, 3}) write_checkpoint(checkpoints, sample(step));
  auto manifest = nlohmann::ordered_json::parse(read_file(checkpoints / "1/manifest.json"));
  manifest["content"]["format"] = 1000;
  const auto content = manifest["content"].dump();
  manifest["crc32c"] = crc32c(content.data(), content.size());
  write_file_durably(checkpoints / "1/manifest.json", manifest.dump());
  prune_checkpoints(checkpoints, 3, {.last = 1, .every = Period{3, Period::Unit::Steps}});
  CHECK(list_checkpoints(checkpoints) == std::vector<int64_t>{1, 3});
}

TEST_CASE("safetensors: an empty tensor may follow the one that begins at its place") {
  const auto bytes = safetensors_bytes(R"({"b":{"dtype":"U16","shape":[2],"data_offsets":[4,8]},)"
                                       R"("e":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
                                       R"("a":{"dtype":"U32","shape":[1],"data_offsets":[0,4]}})",
                                       8);
  const auto entries = formats::parse_safetensors(bytes_of(bytes), "x");
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].name == "a");
  CHECK(entries[1].name == "e");
  CHECK(entries[2].name == "b");
}

TEST_CASE("safetensors: invalid headers are rejected with the reason") {
  const auto refuse = [](const std::string& bytes, const std::string& reason) {
    CHECK_THROWS_WITH(formats::parse_safetensors(bytes_of(bytes), "x"), Catch::Contains(reason));
  };
  refuse("1234", "it has only 4 bytes");
  refuse(std::string(8, '\xff'), "header is longer than the file");
  refuse(safetensors_bytes("[1]", 0), "not a JSON object");
  refuse(safetensors_bytes(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
         "is outside the file");
  refuse(safetensors_bytes(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
         "is outside the file");
  refuse(safetensors_bytes(R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
         "does not match its shape");
  refuse(safetensors_bytes(
             R"({"t":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 8),
         "does not match its shape");
  refuse(safetensors_bytes(R"({"t":{"dtype":"F33","shape":[],"data_offsets":[0,4]}})", 4),
         "unknown dtype 'F33'");
  refuse(safetensors_bytes(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
         "has an element that is not a size");
  refuse(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
                               "b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                           8),
         "overlap");
}
