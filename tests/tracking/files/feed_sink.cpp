// lockstep_feed_sink SINK CONFIG RUN_DIR: makes the sink, and the calls that stdin names, one JSON
// object per line. Like the agent it stores the state of a flush, goes on from it, and gives a new
// object what came since then again.
#include <iostream>
#include <map>

#include "core/durable_file.h"
#include "tracking/sink.h"

using namespace lockstep;

namespace {

// JSON has no NaN and no infinities.
double number(const Json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

std::vector<double> numbers(const Json& values) {
  std::vector<double> result;
  for (const auto& value : values) result.push_back(number(value));
  return result;
}

// Texts that are no UTF-8 are given as {"hex": "..."}.
std::string bytes(const Json& value) {
  if (value.is_string()) return value;
  const std::string hex = value.at("hex");
  std::string result;
  for (size_t i = 0; i < hex.size(); i += 2)
    result += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return result;
}

Moment moment(const Json& call) {
  return {bytes(call.at("name")), call.at("step"), call.at("time"), call.at("epoch")};
}

TextLevel level(const Json& call) {
  for (const auto level : {TextLevel::Debug, TextLevel::Info, TextLevel::Warning, TextLevel::Error})
    if (call.at("level") == level_name(level)) return level;
  throw std::runtime_error("no such level");
}

void give_scalars(Sink& sink, const Json& call) {
  std::vector<std::string> names;
  for (const auto& value : call.at("values")) names.push_back(bytes(value[0]));
  std::vector<Metric> metrics;
  for (size_t i = 0; i < names.size(); ++i)
    metrics.push_back({names[i], number(call.at("values")[i][1])});
  sink.scalars({call.at("step"), call.at("time"), call.at("epoch"), metrics});
}

void give_alert(Sink& sink, const Json& call) {
  Alert alert{call.at("time"), level(call), call.at("title"), call.at("text"), std::nullopt};
  if (call.contains("step")) alert.step = call.at("step").get<int64_t>();
  sink.alert(alert);
}

using Give = void (*)(Sink&, const Json&);
const std::map<std::string, Give> kCalls = {
    {"scalars", give_scalars},
    {"alert", give_alert},
    {"text",
     [](Sink& s, const Json& c) {
       s.text({c.at("time"), level(c), bytes(c.at("line"))});
     }},
    {"console",
     [](Sink& s, const Json& c) {
       s.console({c.at("time"), c.at("rank"), c.at("is_error"), bytes(c.at("line"))});
     }},
    {"histogram",
     [](Sink& s, const Json& c) {
       s.histogram({moment(c), numbers(c.at("edges")), numbers(c.at("counts"))});
     }},
    {"image",
     [](Sink& s, const Json& c) {
       s.image({moment(c), c.at("width"), c.at("height"), c.at("caption"), bytes(c.at("png"))});
     }},
    {"table",
     [](Sink& s, const Json& c) {
       s.table({moment(c), c.at("columns"), c.at("rows")});
     }},
    {"artifact",
     [](Sink& s, const Json& c) {
       s.artifact({c.at("time"), c.at("name"), c.at("artifact_type"), c.at("version"),
                   c.at("digest"), c.at("aliases"), c.at("metadata"), c.at("made")});
     }},
    {"summary", [](Sink& s, const Json& c) { s.summary(c.at("values")); }},
    {"rewind", [](Sink& s, const Json& c) { s.rewind(c.at("step")); }},
    {"finish", [](Sink& s, const Json& c) { s.run_finished(*run_end_from_json(c.at("end"))); }},
};

class Feeder {
 public:
  Feeder(const std::string& sink, const std::string& config, const std::filesystem::path& run_dir)
      : blueprint_(sink_registry().find(sink)->make()),
        run_dir_(run_dir),
        dir_(run_dir / "sinks" / sink / "entry") {
    blueprint_->read(parse_config(config, "config"), "sink");
    make_directories(dir_);
  }

  void make(const Json& call) {
    const auto path = dir_ / "state.json";
    const auto state = std::filesystem::exists(path) ? Json::parse(read_file(path)) : Json(nullptr);
    start_ = call;
    since_flush_.clear();
    sink_.reset();
    sink_ = blueprint_->build({.run_dir = run_dir_,
                               .dir = dir_,
                               .environment = [](const std::string&) { return std::nullopt; },
                               .state = state});
    sink_->run_started(*run_info_from_json(call.at("info")), call.at("config"));
  }

  void take(const Json& call) {
    const std::string name = call.at("call");
    if (name == "start") return make(call);
    if (name == "flush") return flush();
    if (name == "crash") return crash();
    kCalls.at(name)(*sink_, call);
    since_flush_.push_back(call);
  }

 private:
  void flush() {
    write_file_durably(dir_ / "state.json", sink_->flush().dump());
    since_flush_.clear();
  }

  void crash() {
    const auto again = since_flush_;
    make(start_);
    for (const auto& call : again) take(call);
  }

  std::unique_ptr<Blueprint<Sink, const SinkContext&>> blueprint_;
  std::filesystem::path run_dir_, dir_;
  Json start_;
  std::vector<Json> since_flush_;
  std::shared_ptr<Sink> sink_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) return 64;
  Feeder feeder(argv[1], argv[2], argv[3]);
  for (std::string line; std::getline(std::cin, line);) feeder.take(Json::parse(line));
  return 0;
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return error.exit_code();
}
