// Shards that are rewritten after they were opened and before their samples are read.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "lockstep/dataset.h"
#include "lockstep/part.h"
#include "tests/data/error_of.h"
#include "tests/temporary_directory.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// Two shards of two samples each.
struct TwoShards {
  std::string dataset, ending;
  std::vector<uint8_t> content, changed;  // of the same size

  fs::path write(const TemporaryDirectory& directory) const {
    for (const auto* name : {"a", "b"}) directory.write(name + ending, content);
    return directory / ("b" + ending);
  }
  std::shared_ptr<Dataset> build(const TemporaryDirectory& directory) const {
    Part<Dataset> part(dataset_registry());
    const auto length = dataset == "tokens" ? ", length: 2" : "";
    part.read(parse_config("{name: " + dataset + ", path: '" + directory.path().string() + "'" +
                               length + "}",
                           "run.yaml"),
              "data.train");
    auto built = part.build();
    built->fit(*built, {});
    return built;
  }
};

std::vector<uint8_t> bytes_of_text(const std::string& text) { return {text.begin(), text.end()}; }

std::vector<uint8_t> safetensors_of(const std::string& two_bytes) {
  const std::string header = R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  return bytes_of_text(std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') +
                       header + two_bytes);
}

std::vector<TwoShards> all_kinds() {
  return {{"safetensors", ".safetensors", safetensors_of("ab"), safetensors_of("cd")},
          {"csv", ".csv", bytes_of_text("x,y\n1,2\n3,4\n"), bytes_of_text("y,x\n1,2\n3,4\n")},
          {"tokens", ".bin", bytes_of_text("0123456789"), bytes_of_text("9876543210")}};
}

// The error of reading the second shard, `file`, after `change(kind, directory, file)`.
template <class Change, class Check>
void read_after(const Change& change, const Check& check) {
  for (const auto& kind : all_kinds()) {
    INFO(kind.dataset);
    const TemporaryDirectory directory;
    const auto file = kind.write(directory);
    const auto dataset = kind.build(directory);
    REQUIRE(dataset->size() == 4);
    change(kind, directory, file);
    const std::vector<int64_t> kept = {0, 1}, lost = {2};
    CHECK(dataset->get_batch(kept).size() == 2);
    check(error_of([&] { dataset->get_batch(lost); }), "environment: " + file.string() + ": ");
  }
}

TEST_CASE("shards: a shard that is rewritten before it is read is an environment error") {
  read_after(
      [](const TwoShards& kind, const TemporaryDirectory& directory, const fs::path& file) {
        directory.write(file.filename().string(), kind.changed);
        // The file system clock may not have advanced since.
        fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
      },
      [](const std::string& error, const std::string& begin) {
        CHECK(error == begin + "was changed while it was being read");
      });
}

TEST_CASE("shards: a shard that is removed before it is read is an environment error") {
  read_after(
      [](const TwoShards&, const TemporaryDirectory&, const fs::path& file) { fs::remove(file); },
      [](const std::string& error, const std::string& begin) {
        CHECK_THAT(error, Catch::StartsWith(begin + "was deleted while it was being read"));
      });
}

}  // namespace
}  // namespace lockstep::data
