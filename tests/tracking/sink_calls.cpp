// lockstep_sink_calls: reads one call per line of stdin, a JSON object, executes it, and responds
// with a line: {"state": of a flush, or what was published}, or {"error": text, "kind": "config" |
// "environment" | "bug", "pause": seconds, of RetryLater}. Sinks have names ("on"), so that several
// exist in one process. Text that is not UTF-8 is given as {"hex": "..."}.
#include <iostream>
#include <map>

#include "core/system/durable_file.h"
#include "lockstep/sink.h"
#include "tracking/artifacts/store.h"
#include "tracking/http/retry_later.h"

using namespace lockstep;
using namespace lockstep::tracking;

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

std::string bytes(const Json& value) {
  if (value.is_string()) return value;
  const std::string hex = value.at("hex");
  std::string result;
  for (size_t i = 0; i < hex.size(); i += 2)
    result += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return result;
}

TextLevel level(const Json& call) {
  for (const auto level : {TextLevel::Debug, TextLevel::Info, TextLevel::Warning, TextLevel::Error})
    if (call.at("level") == level_name(level)) return level;
  throw std::runtime_error("no such level");
}

Moment moment(const Json& call) {
  return {bytes(call.at("name")), call.at("step"), call.at("time"), call.value("epoch", 0.0)};
}

void give_scalars(Sink& sink, const Json& call) {
  std::vector<std::string> names;
  for (const auto& value : call.at("values")) names.push_back(bytes(value[0]));
  std::vector<Metric> metrics;
  for (size_t i = 0; i < names.size(); ++i)
    metrics.push_back({names[i], number(call.at("values")[i][1])});
  sink.scalars({call.at("step"), call.at("time"), call.value("epoch", 0.0), metrics});
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
    {"clip",
     [](Sink& s, const Json& c) {
       s.clip({moment(c), c.at("media_type"), c.at("caption"), bytes(c.at("bytes"))});
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

using Sinks = std::map<std::string, std::shared_ptr<Sink>>;

void open(Sinks& sinks, const std::string& on, const Json& call) {
  sinks.erase(on);
  const std::string sink = call.at("sink");
  const auto blueprint = sink_registry().find(sink)->make();
  blueprint->read(parse_config(call.at("config").dump(), "config"), "sink");
  const std::filesystem::path run_dir = call.at("run_dir").get<std::string>();
  const auto info = *run_info_from_json(call.at("info"));
  const auto dir = run_dir / "sinks" / sink / info.id;
  make_directories(dir);
  const auto environment =
      [variables = call.at("environment")](const std::string& name) -> std::optional<std::string> {
    if (!variables.contains(name)) return std::nullopt;
    return variables[name].get<std::string>();
  };
  const auto made = blueprint->build(
      {.run_dir = run_dir, .dir = dir, .environment = environment, .state = call.at("state")});
  made->run_started(info, call.at("run_config"));
  sinks[on] = made;
}

// Of the run in `run_dir`. Returns what a sink receives.
Json publish(const Json& call) {
  const std::filesystem::path run_dir = call.at("run_dir").get<std::string>();
  const auto made = ArtifactStore(run_dir.parent_path() / "artifacts")
                        .publish({.name = call.at("name"),
                                  .type = call.at("artifact_type"),
                                  .source = call.at("source").get<std::string>()});
  return {{"version", made.version}, {"digest", made.digest}};
}

Json answer(Sinks& sinks, const Json& call) {
  const std::string name = call.at("call"), on = call.at("on");
  auto state = Json::object();
  if (name == "open")
    open(sinks, on, call);
  else if (name == "close")
    sinks.erase(on);
  else if (name == "flush")
    state["state"] = sinks.at(on)->flush();
  else if (name == "publish")
    state["state"] = publish(call);
  else
    kCalls.at(name)(*sinks.at(on), call);
  return state;
}

}  // namespace

int main() {
  Sinks sinks;
  for (std::string line; std::getline(std::cin, line);) {
    Json said;
    try {
      said = answer(sinks, Json::parse(line));
    } catch (const RetryLater& busy) {
      said = {{"error", busy.what()},
              {"kind", kind_name(busy.kind())},
              {"pause", busy.pause().count()}};
    } catch (const Error& error) {
      said = {{"error", error.what()}, {"kind", kind_name(error.kind())}};
    } catch (const std::exception& error) {
      said = {{"error", error.what()}, {"kind", "bug"}};
    }
    std::cout << said.dump() << std::endl;
  }
}
