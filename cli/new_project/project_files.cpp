#include "cli/new_project/project_files.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

namespace lockstep::cli {
namespace {

// @name@ is the name, @Type@ the class, #@include an include of the project.
constexpr const char* kRunCMake =
    R"(# ctest: cmake -S . -B build && ctest --test-dir build --output-on-failure
cmake_minimum_required(VERSION 3.25)
project(@name@ LANGUAGES NONE)

find_program(LOCKSTEP_PROGRAM lockstep REQUIRED)
enable_testing()
add_test(NAME trains WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
  COMMAND ${LOCKSTEP_PROGRAM} launch -n 2 run.yaml run.dir=${CMAKE_BINARY_DIR}/runs train.epochs=2)
set_tests_properties(trains PROPERTIES PASS_REGULAR_EXPRESSION "done: +eval/" TIMEOUT 300)
)";

constexpr const char* kPluginCMake =
    R"(# cmake -S . -B build && cmake --build build && ctest --test-dir build --output-on-failure
cmake_minimum_required(VERSION 3.25)
project(@name@ LANGUAGES CXX)

find_package(lockstep REQUIRED)
@add@(@name@ @name@.cpp)

enable_testing()
add_test(NAME trains WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
  COMMAND ${LOCKSTEP_PROGRAM} launch -n 2 run.yaml @plugins@=[$<TARGET_FILE:@name@>] run.dir=${CMAKE_BINARY_DIR}/runs train.epochs=2)
set_tests_properties(trains PROPERTIES PASS_REGULAR_EXPRESSION "done: +eval/" TIMEOUT 300)
)";

constexpr const char* kHead = R"(# yaml-language-server: $schema=run_file.schema.json
# lockstep launch -n 2 run.yaml
run: {name: @name@, seed: 0}
)";

constexpr const char* kTable = R"(data:
  train:
    name: csv
    path: points.csv
    label: y
    label_kind: value
    standardize: true
  split: {eval: 0.25}
  batch_size: 32
)";

constexpr const char* kTraining = R"(
optimizer: {name: adam, lr: 0.01}
train: {epochs: 20, eval_every: 5 epochs}
)";

constexpr const char* kModel = R"(// A model: in a run file, model: {name: @name@, inputs: 2}
#@include <torch/nn/modules/linear.h>

#@include <lockstep/model.h>

namespace {

struct @Type@Config {
  int64_t inputs = 2;
  int64_t hidden = 32;
};

// The keys of the run file.
template <class V>
void fields(V& v, @Type@Config& c) {
  v("inputs", c.inputs, "features of a sample", lockstep::at_least(1));
  v("hidden", c.hidden, "width of the hidden layer", lockstep::at_least(1));
}

class @Type@ final : public lockstep::Model {
 public:
  using Config = @Type@Config;

  explicit @Type@(const Config& config)
      : first_(register_module("first", torch::nn::Linear(config.inputs, config.hidden))),
        last_(register_module("last", torch::nn::Linear(config.hidden, 1))) {}

  lockstep::Outputs forward(const lockstep::Batch& batch) override {
    const auto hidden = first_->forward(batch.at("features")).relu();
    const auto predictions = last_->forward(hidden).squeeze(1);
    return {.loss = at::mse_loss(predictions, batch.at("label")),
            .count = batch.size(),
            .predictions = predictions};
  }

 private:
  torch::nn::Linear first_, last_;
};

REGISTER_MODEL("@name@", @Type@, "two layers, for regression");

}  // namespace
)";

constexpr const char* kDataset =
    R"(// A dataset: in a run file, data: {train: {name: @name@, samples: 1000}}
#@include <ATen/ATen.h>

#@include <lockstep/dataset.h>

namespace {

struct @Type@Config {
  int64_t samples = 1000;
};

// The keys of the run file.
template <class V>
void fields(V& v, @Type@Config& c) {
  v("samples", c.samples, "number of samples", lockstep::at_least(1));
}

// Points x in [0, 1) with the label 2 x + 1.
class @Type@ final : public lockstep::Dataset {
 public:
  using Config = @Type@Config;

  explicit @Type@(const Config& config) : config_(config) {}

  int64_t size() const override { return config_.samples; }

  // Called by several threads at a time.
  lockstep::Batch get_batch(std::span<const int64_t> indices) const override {
    const auto chosen = at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()));
    const auto x = chosen.to(at::kFloat) / config_.samples;
    return {.fields = {{"features", x.unsqueeze(1)}, {"label", 2 * x + 1}}, .indices = chosen};
  }

 private:
  Config config_;
};

REGISTER_DATASET("@name@", @Type@, "points of a line");

}  // namespace
)";

constexpr const char* kSink =
    R"(// A sink: in a run file, tracking: {plugins: [@name@.so], sinks: [{name: @name@}]}
// The tracking agent calls it; it does not slow down the training.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#@include <lockstep/error.h>
#@include <lockstep/sink.h>

namespace {

struct @Type@Config {
  std::string file = "@name@.txt";
};

// The keys of the run file.
template <class V>
void fields(V& v, @Type@Config& c) {
  v("file", c.file, "file in the sink's directory of the run");
}

class @Type@ final : public lockstep::Sink {
 public:
  using Config = @Type@Config;

  // Opens nothing: of some objects, only destination() is called.
  @Type@(const Config& config, const lockstep::SinkContext& run)
      : path_(run.dir / config.file), length_(run.state.is_null() ? 0 : run.state.get<uint64_t>()) {}

  // Without the file, it starts again.
  bool has_delivered(const lockstep::RunInfo&) const override {
    return std::filesystem::exists(path_);
  }

  void run_started(const lockstep::RunInfo& info, const lockstep::Json&) override {
    out_.open(path_, std::ios::app);
    std::error_code error;
    // Lines after the last flush() are written again.
    std::filesystem::resize_file(path_, length_, error);
    if (!out_ || error) throw lockstep::environment_error("cannot write " + path_.string());
    if (length_ == 0) out_ << "run " << info.id << "\n";
  }

  void scalars(const lockstep::ScalarRow& row) override {
    for (const auto& metric : row.values) out_ << metric.name << " " << metric.value << "\n";
  }

  void run_finished(const lockstep::RunEnd& end) override {
    out_ << "exit code " << end.exit_code << "\n";
  }

  lockstep::Json flush() override {
    if (!out_.flush()) throw lockstep::environment_error("cannot write " + path_.string());
    return std::filesystem::file_size(path_);
  }

 private:
  std::filesystem::path path_;
  uint64_t length_;  // of the file at the last flush() of an earlier object
  std::ofstream out_;
};

REGISTER_SINK("@name@", @Type@, "writes metrics as lines of text");

}  // namespace
)";

// 200 points of a plane, the same ones every time.
std::string points() {
  std::string text = "a,b,y\n";
  for (int i = 0; i < 200; ++i) {
    const double a = (i * 37 % 200) / 200.0, b = (i * 91 % 200) / 200.0;
    text += fmt::format("{:.3f},{:.3f},{:.4f}\n", a, b, 3 * a - 2 * b + 0.05 * std::sin(i));
  }
  return text;
}

// "my_model" -> "MyModel".
std::string type_name(const std::string& name) {
  std::string type;
  bool begins = true;
  for (const char letter : name) {
    if (letter != '_') type += begins ? static_cast<char>(std::toupper(letter)) : letter;
    begins = letter == '_';
  }
  return type;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string with_names(std::string text, const std::string& name) {
  text = replaced(std::move(text), "@name@", name);
  text = replaced(std::move(text), "@Type@", type_name(name));
  return replaced(std::move(text), "#@include", "#include");
}

}  // namespace

std::vector<std::string> project_kinds() { return {"run", "model", "dataset", "sink"}; }

std::vector<std::pair<std::string, std::string>> project_files(const std::string& kind,
                                                               const std::string& name) {
  std::string cmake = kind == "run" ? kRunCMake : kPluginCMake;
  std::string run = kHead, source;
  if (kind == "model") {
    source = kModel;
    run += "plugins: [build/@name@.so]\n\nmodel: {name: @name@, inputs: 2}\n";
  } else if (kind == "dataset") {
    source = kDataset;
    run +=
        "plugins: [build/@name@.so]\n\n"
        "model: {name: mlp, input: features, inputs: 1, hidden: [32], loss: mse}\n";
  } else {
    run += "\nmodel: {name: mlp, input: features, inputs: 2, hidden: [32], loss: mse}\n";
  }
  run += kind == "dataset" ? "data:\n  train: {name: @name@, samples: 1000}\n"
                             "  eval:  {name: @name@, samples: 100}\n  batch_size: 32\n"
                           : kTable;
  run += kTraining;
  if (kind == "sink") {
    source = kSink;
    run += "tracking: {plugins: [build/@name@.so], sinks: [console, {name: @name@}]}\n";
  }
  cmake =
      replaced(cmake, "@add@", kind == "sink" ? "lockstep_add_sink_plugin" : "lockstep_add_plugin");
  cmake = replaced(cmake, "@plugins@", kind == "sink" ? "tracking.plugins" : "plugins");
  std::vector<std::pair<std::string, std::string>> files = {
      {"CMakeLists.txt", cmake}, {"run.yaml", run}, {".gitignore", "/build/\n/runs/\n"}};
  if (!source.empty()) files.emplace_back(name + ".cpp", source);
  if (kind != "dataset") files.emplace_back("points.csv", points());
  for (auto& [file, text] : files) text = with_names(text, name);
  return files;
}

}  // namespace lockstep::cli
