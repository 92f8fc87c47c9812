#include "lockstep/session.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"
#include "lockstep/tracker.h"
#include "tests/temporary_directory.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/run_directory.h"
#include "trainer/checkpoint/checkpoint.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

constexpr const char* kRunFile = R"(
run: {name: small, dir: "elsewhere"}
model: {name: mlp, inputs: 3, hidden: [4], classes: 2}
data:
  train:
    name: synthetic
    samples: 64
    fields: {image: {shape: [3]}, label: {dtype: int64, values: uniform, high: 2}}
  batch_size: 16
optimizer: {name: sgd, lr: 0.1}
train: {epochs: 2, log_every: 1 step}
tracking: {sinks: []}
)";

struct DescribedConfig {
  std::string metadata = "null";  // JSON
};
template <class V>
void fields(V& v, DescribedConfig& c) {
  v("metadata", c.metadata,
    "JSON that metadata() returns; the class 'caf?' ends with a byte of Latin-1");
}

class Described final : public Dataset {
 public:
  using Config = DescribedConfig;
  explicit Described(const Config& config) : metadata_(Json::parse(config.metadata)) {
    if (!metadata_.is_object() || !metadata_.value("classes", Json()).is_array()) return;
    auto& first = metadata_["classes"][0];
    if (first == "caf?") first = "caf\xe9";
  }
  int64_t size() const override { return 32; }
  Batch get_batch(std::span<const int64_t> indices) const override {
    const auto count = std::ssize(indices);
    return {.fields = {{"image", at::ones({count, 3})}, {"label", at::zeros({count}, at::kLong)}},
            .indices = {}};
  }
  Json metadata() const override { return metadata_; }

 private:
  Json metadata_;
};
REGISTER_DATASET("described", Described, "a dataset with the given metadata");

// The data.json of a run with that metadata, or the error.
std::string trained_with(const std::string& metadata) {
  const TemporaryDirectory dir;
  write_file_durably(dir / "run.yaml", kRunFile);
  const auto data = fmt::format("{{name: described, metadata: '{}'}}", metadata);
  try {
    const auto result =
        run_session({.config_path = dir / "run.yaml",
                     .overrides = {"run.dir=" + dir.path().string(), "data.train=" + data,
                                   "data.eval=" + data, "tracking.media={confusion: true}"}});
    return Json::parse(read_file(result.run_dir / "data.json")).dump();
  } catch (const Error& error) {
    return std::string(kind_name(error.kind())) + ": " + error.what();
  }
}

// A program that has opened its own run.
struct ProgramWithRun {
  ProgramWithRun() {
    write_file_durably(dir / "run.yaml", kRunFile);
    const RunInfo process{.id = "mine", .name = "mine", .job_id = "mine", .world_size = 1};
    create_run_directory(run_dir, process, Json::object());
    tracker = open_tracker({.run_dir = run_dir, .process = process});
  }

  SessionResult train() {
    return run_session({.config_path = dir / "run.yaml", .own_run = OwnRun{tracker, run_dir}});
  }

  TemporaryDirectory dir;
  std::filesystem::path run_dir = dir / "mine";
  Tracker tracker;
};

}  // namespace

TEST_CASE("session: trains in a run of the program and leaves it open", "[trainer]") {
  ProgramWithRun program;
  const auto& run_dir = program.run_dir;
  auto& tracker = program.tracker;
  tracker.log(0, 0, std::vector<Metric>{{"mine/before", 1}});
  const auto result = program.train();
  CHECK(result.run_id == "mine");
  CHECK(tracker.is_logging());
  tracker.log(8, 2, std::vector<Metric>{{"mine/after", 2}});
  tracker.finish({.state = RunState::Finished});

  const auto log = tracking::read_event_log(tracking::event_log_path(run_dir, 0));
  CHECK(log.rows.size() == 2 + 8);
  CHECK(std::ranges::count(log.keys, "train/loss") == 1);
  CHECK(log.info->id == "mine");
  CHECK(list_checkpoints(tracking::checkpoints_path(run_dir)).back() == 8);
  CHECK_FALSE(std::filesystem::exists("elsewhere"));
}

TEST_CASE("session: a failure in a run of the program is recorded by the program", "[trainer]") {
  ProgramWithRun program;
  const auto& run_dir = program.run_dir;
  auto& tracker = program.tracker;
  write_file_durably(run_dir / "checkpoints", "in the way of the directory");
  CHECK_THROWS_WITH(program.train(), Catch::Contains("mine/checkpoints"));
  CHECK(tracker.is_logging());
  CHECK_FALSE(tracking::read_run_end(run_dir));
}

TEST_CASE("session: metadata of another type than that of dataset.h is an error of the input") {
  const std::string of_dataset = "config: data.train: metadata() of the dataset: ";
  CHECK(trained_with("[1]") == of_dataset + "expected an object, got [1]");
  CHECK(trained_with(R"({"vocabulary": ["a"]})") ==
        of_dataset + R"('vocabulary': expected an integer, the number of tokens, got ["a"])");
  for (const std::string classes : {"3", "[0,1]"})
    CHECK(trained_with(R"({"classes": )" + classes + "}") ==
          of_dataset + "'classes': expected a list of strings, got " + classes);
}

TEST_CASE("session: bytes of metadata that are not UTF-8 are replaced") {
  CHECK(trained_with(R"({"classes": ["caf?", "tea"]})") ==
        "{\"classes\":[\"caf\xef\xbf\xbd\",\"tea\"]}");
}
