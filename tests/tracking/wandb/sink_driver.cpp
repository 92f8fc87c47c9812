// Drives the wandb sink from outside, as the tracking agent does: one JSON object per line of stdin
// is one call, and is answered with one line, {"state": ...} of a flush, {"error": kind, "message":
// ...} or {}.
//   {"do": "start", "config": {}, "state": null, "info": {}, "run_config": {}}  a new object, and
//   run_started()
//   {"do": "drop"}                                                             the object is gone,
//   as after a crash
//   {"do": "scalars", "step": 1, "time": 2.0, "epoch": 0.5, "values": {"train/loss": 1.0, "x":
//   "nan"}}
//   {"do": "publish", "name": "a", "type": "model", "source": DIR}  a version of an artifact;
//   answered with its digest
//   ... "flush", "finish", "text", "console", "histogram", "image", "table", "alert", "artifact",
//   "summary", "rewind"
// usage: sink_driver RUN_DIR; the environment variables WANDB_..., NETRC, PATH, ... are those of
// the process.
#include <stdlib.h>

#include <filesystem>
#include <iostream>
#include <limits>
#include <map>

#include "core/durable_file.h"
#include "core/error.h"
#include "tracking/artifacts/store.h"
#include "tracking/sink.h"

namespace {

using namespace lockstep;

double number(const Json& value) {
  static const std::map<std::string, double> kSpecial = {
      {"nan", std::numeric_limits<double>::quiet_NaN()},
      {"inf", std::numeric_limits<double>::infinity()},
      {"-inf", -std::numeric_limits<double>::infinity()}};
  return value.is_string() ? kSpecial.at(value.get<std::string>()) : value.get<double>();
}

TextLevel level(const Json& call) { return static_cast<TextLevel>(call.value("level", 1)); }

Moment moment(const Json& call) {
  return {call.at("name"), call.value("step", int64_t{0}), call.value("time", 0.0),
          call.value("epoch", 0.0)};
}

class Driver {
 public:
  explicit Driver(std::filesystem::path run_dir) : run_dir_(std::move(run_dir)) {}

  Json answer(const Json& call) {
    const std::string what = call.at("do");
    if (what == "drop")
      sink_.reset();
    else if (what == "start")
      start(call);
    else if (what == "flush")
      return {{"state", sink_->flush()}};
    else if (what == "finish")
      sink_->run_finished(run_end_from_json(call.at("end")).value());
    else if (what == "publish")
      return publish(call);
    else
      give(what, call);
    return Json::object();
  }

 private:
  Json publish(const Json& call) const {
    const ArtifactStore store(run_dir_.parent_path() / "artifacts");
    ArtifactDraft draft{.name = call.at("name"), .type = call.at("type")};
    draft.source = call.at("source").get<std::string>();
    return {{"digest", store.publish(draft).digest}};
  }

  void start(const Json& call) {
    sink_.reset();
    auto blueprint = sink_registry().find("wandb")->make();
    blueprint->read(parse_config(call.at("config").dump(), "config"), "sink");
    const auto info = run_info_from_json(call.at("info")).value();
    const auto dir = run_dir_ / "sinks" / "wandb" / info.id;
    make_directories(dir);
    const Environment environment = [](const std::string& name) -> std::optional<std::string> {
      const char* value = ::getenv(name.c_str());
      return value ? std::optional<std::string>(value) : std::nullopt;
    };
    sink_ = blueprint->build(
        {.run_dir = run_dir_, .dir = dir, .environment = environment, .state = call.at("state")});
    sink_->run_started(info, call.at("run_config"));
  }

  void give(const std::string& what, const Json& call) {
    if (what == "scalars")
      scalars(call);
    else if (what == "text")
      sink_->text({call.at("time"), level(call), call.at("line")});
    else if (what == "console")
      sink_->console({call.at("time"), call.at("rank"), call.at("error"), call.at("line")});
    else if (what == "histogram")
      sink_->histogram({moment(call), call.at("edges"), call.at("counts")});
    else if (what == "image")
      sink_->image({moment(call), call.at("width"), call.at("height"), call.at("caption"),
                    read_file(call.at("file").get<std::string>())});
    else if (what == "table")
      sink_->table({moment(call), call.at("columns"), call.at("rows")});
    else if (what == "alert")
      sink_->alert({call.at("time"), level(call), call.at("title"), call.at("text"), {}});
    else if (what == "artifact")
      sink_->artifact({call.at("time"), call.at("name"), call.at("type"), call.at("version"),
                       call.at("digest"), call.at("aliases"), call.at("metadata"),
                       call.at("made")});
    else if (what == "summary")
      sink_->summary(call.at("values"));
    else if (what == "rewind")
      sink_->rewind(call.at("step"));
    else
      throw config_error("unknown call " + what);
  }

  void scalars(const Json& call) {
    std::vector<Metric> metrics;
    const auto& values = call.at("values");
    for (const auto& [name, value] : values.items()) metrics.push_back({name, number(value)});
    sink_->scalars({call.at("step"), call.at("time"), call.at("epoch"), metrics});
  }

  std::filesystem::path run_dir_;
  std::shared_ptr<Sink> sink_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 78;
  Driver driver(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      answer = driver.answer(Json::parse(line));
    } catch (const Error& error) {
      answer = {{"error", kind_name(error.kind())}, {"message", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}
