#include "sweep/space.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "lockstep/error.h"
#include "sweep/run_file_keys.h"
#include "sweep/sweep_file.h"

using namespace lockstep;
using namespace lockstep::sweep;
using Catch::Contains;
using Catch::EndsWith;

namespace {

Space read_space(const std::string& yaml) {
  return ConfigValue<Space>::read(parse_config(yaml, "sweep.yaml"), "space");
}

const std::string kConditional =
    "optimizer.momentum: {uniform: [0, 1], when: {optimizer.name: sgd}}\n"
    "optimizer.name: {choice: [sgd, adamw]}\n";

}  // namespace

TEST_CASE("each kind of parameter covers its values") {
  const auto space = read_space(
      "a: {uniform: [2, 4]}\nb: {log_uniform: [1e-4, 1]}\nc: {int: [1, 8], step: 3}\n"
      "d: {log_int: [1, 1000]}\ne: {choice: [x, 2, [1, 2], null, true]}\n");
  const auto at = [&](const char* key, double unit) { return space.find(key)->at(unit); };
  CHECK(at("a", 0.5) == 3.0);
  CHECK(at("b", 0.5).get<double>() == Approx(1e-2));
  CHECK(at("c", 0) == 1);
  CHECK(at("c", 0.5) == 4);
  CHECK(at("c", 0.999) == 7);
  CHECK(at("d", 0) == 1);
  CHECK(at("d", 0.9999) == 1000);
  CHECK(at("d", 0.5) == 22);
  CHECK(at("e", 0) == "x");
  CHECK(at("e", 0.3) == 2);
  CHECK(at("e", 0.5) == Json::array({1, 2}));
  CHECK(at("e", 0.7).is_null());
  CHECK(at("e", 0.9) == true);
  CHECK(space.find("c")->count() == 3);
}

TEST_CASE("a parameter is active if its conditions hold, also within chosen maps") {
  auto space = read_space(kConditional);
  CHECK(space.parameters.front().key == "optimizer.name");  // others depend on it
  const auto& momentum = *space.find("optimizer.momentum");
  CHECK(space.is_active(momentum, {{"optimizer.name", "sgd"}}));
  CHECK_FALSE(space.is_active(momentum, {{"optimizer.name", "adamw"}}));
  space = read_space(
      "optimizer: {choice: [{name: sgd}, {name: adamw}]}\n"
      "optimizer.momentum: {uniform: [0, 1], when: {optimizer.name: [sgd]}}\n");
  const auto& inner = *space.find("optimizer.momentum");
  CHECK(space.is_active(inner, {{"optimizer", {{"name", "sgd"}}}}));
  CHECK_FALSE(space.is_active(inner, {{"optimizer", {{"name", "adamw"}}}}));
}

TEST_CASE("impossible conditions and invalid parameters are refused") {
  const auto refused = [](const std::string& yaml, const std::string& text) {
    CHECK_THROWS_WITH(read_space(yaml), Contains(text));
  };
  refused("a: {uniform: [0, 1], when: {b: 1}}", "'b' is not in the space");
  refused("a: {uniform: [0, 1], when: {b: z}}\nb: {choice: [x, y]}", "b is never \"z\"");
  refused("a: {uniform: [0, 1], when: {b: 1}}\nb: {int: [1, 2]}", "b is not a choice");
  refused("a: {choice: [1], when: {b: 1}}\nb: {choice: [1], when: {a: 1}}", "depends on itself");
  refused("a: {uniform: [1, 0]}", "LOW below HIGH");
  refused("a: {log_uniform: [0, 1]}", "above 0");
  refused("a: {choice: []}", "a list of values");
  refused("a: {choice: [1, 1]}", "each value once");
  refused("a: {unifrom: [0, 1]}", "did you mean 'uniform'?");
  refused("a: {uniform: [0, 1], int: [0, 1]}", "exactly one of");
  refused("a: {uniform: [0, 1], step: 2}", "no step");
  refused("a: {int: [0, 1.5]}", "sweep.yaml:1");
  refused("{}", "a map of run file keys");
}

TEST_CASE("conditions that exclude each other are refused") {
  const std::string choices = "a: {choice: [1, 2, 3]}\nb: {choice: [1, 2], when: {a: [2, 3]}}\n";
  const auto refused = [&](const std::string& yaml, const std::string& text) {
    CHECK_THROWS_WITH(read_space(choices + yaml), EndsWith(text));
  };
  refused("c: {uniform: [0, 1], when: {a: 1, b: 2}}",
          "sweep.yaml:3: space.c.when: never holds: c needs a: 1, b needs a: [2,3]");
  refused(
      "c: {choice: [x], when: {b: 2}}\nd: {choice: [y], when: {a: 2}}\n"
      "e: {int: [1, 9], when: {d: y, c: x, b: 1}}",
      "space.e.when: never holds: e needs b: 1, c needs b: 2");
  refused(
      "c: {choice: [x], when: {a: 2}}\nd: {int: [1, 9], when: {c: x, f: y}}\n"
      "f: {choice: [y], when: {a: 3}}",
      "space.d.when: never holds: c needs a: 2, f needs a: 3");
  refused(
      "o: {choice: [{n: x, k: 1}, {n: y, k: 2}, {n: y}]}\nc: {int: [1, 9], when: {o.n: x, o.k: 2}}",
      "space.c.when: never holds: c needs o.n: \"x\", c needs o.k: 2");
  CHECK_NOTHROW(read_space(choices + "c: {uniform: [0, 1], when: {a: [1, 3], b: 2}}"));
}

TEST_CASE("points are compared with the space") {
  const auto space = read_space(kConditional + "n: {int: [1, 4]}\n");
  const auto problem = [&](const Point& point) -> std::string {
    try {
      space.verify(point);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(problem({{"optimizer.name", "adamw"}, {"n", 2}}).empty());
  CHECK_THAT(problem({{"optimizer.name", "adamw"}}), Contains("n is missing"));
  CHECK_THAT(problem({{"optimizer.name", "adamw"}, {"n", 5}}), Contains("from 1 to 4"));
  CHECK_THAT(problem({{"optimizer.name", "adamw"}, {"n", 2.5}}), Contains("an integer"));
  CHECK_THAT(problem({{"optimizer.name", "adam"}, {"n", 2}}), Contains("not one of the choices"));
  CHECK_THAT(problem({{"optimizer.name", "adamw"}, {"n", 2}, {"optimizer.momentum", 0.1}}),
             Contains("its condition does not hold"));
  CHECK_THAT(problem({{"optimizer.nam", "adamw"}}), Contains("did you mean 'optimizer.name'"));
}

TEST_CASE("overrides set maps before their members, and are read back") {
  const Point point = {{"optimizer.lr", 1e-7}, {"optimizer", {{"name", "sgd"}}}, {"a.b", "1"}};
  const auto overrides = overrides_of(point);
  CHECK(overrides == std::vector<std::string>{R"(optimizer={"name":"sgd"})", "optimizer.lr=1e-07",
                                              R"(a.b="1")"});
  auto root = parse_config("{}", "run.yaml");
  for (const auto& each : overrides) apply_override(root, each);
  CHECK(to_json(root) ==
        Json({{"optimizer", {{"name", "sgd"}, {"lr", 1e-7}}}, {"a", {{"b", "1"}}}}));
}

TEST_CASE("keys and values are compared with the schema of the run file") {
  const auto schema = Json::parse(R"({"properties": {
    "train": {"properties": {"epochs": {"type": "integer", "minimum": 1}}},
    "optimizer": {"anyOf": [
      {"properties": {"name": {"const": "sgd"}, "lr": {"type": "number", "exclusiveMinimum": 0},
                      "momentum": {"type": "number"}}},
      {"properties": {"name": {"const": "adamw"}, "lr": {"type": "number"}}}]}}})");
  const Json run = {{"optimizer", {{"name", "adamw"}}}};
  const auto problem = [&](const std::string& yaml) -> std::string {
    try {
      verify_keys(read_space(yaml), schema, run);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(problem("optimizer.lr: {uniform: [0.1, 1]}").empty());
  CHECK_THAT(problem("optimizer.lrr: {uniform: [0, 1]}"), Contains("did you mean 'lr'?"));
  CHECK_THAT(problem("optimiser.lrr: {uniform: [0, 1]}"), Contains("did you mean 'optimizer'?"));
  for (const auto* key : {"lr", "train.lr", "optimiser.lr"})
    CHECK_THAT(problem(std::string(key) + ": {uniform: [0.1, 1]}"),
               EndsWith("; did you mean 'optimizer.lr'?"));
  // Only the parts that the run file or the space names have keys.
  CHECK_THAT(problem("optimizer.momentum: {uniform: [0, 1]}"),
             Contains("no key 'optimizer.momentum'"));
  CHECK(problem(kConditional).empty());
  const Json kept = {{"optimizer", {{"name", "sgd"}, {"momentum", 0.9}}}};
  CHECK_THROWS_WITH(verify_keys(read_space("optimizer.name: {choice: [sgd, adamw]}"), schema, kept),
                    Contains("\"adamw\" has no key 'momentum', which the run file sets"));
  CHECK_NOTHROW(verify_keys(read_space("optimizer: {choice: [{name: sgd}, {name: adamw}]}\n"
                                       "optimizer.lr: {uniform: [0.1, 1]}"),
                            schema, kept));
  CHECK_THAT(problem("train.epochs: {int: [0, 3]}"), Contains("cannot have the value 0"));
  CHECK_THAT(problem("train.epochs: {choice: [many]}"), Contains("cannot have the value \"many\""));
}

TEST_CASE("units lead to values and back") {
  const auto space = ConfigValue<Space>::read(
      parse_config("c: {choice: [a, b, c]}\nx: {uniform: [-2, 5], when: {c: [a, b]}}\n"
                   "l: {log_uniform: [0.001, 10]}\nn: {int: [4, 20], step: 4}\n"
                   "m: {log_int: [1, 100]}\n",
                   "sweep.yaml"),
      "space");
  for (double unit = 0.01; unit < 1; unit += 0.07) {
    const auto point = space.at(std::vector<double>(space.parameters.size(), unit));
    const auto units = space.units_of(point);
    for (size_t i = 0; i < units.size(); ++i) {
      const auto& parameter = space.parameters[i];
      if (!point.contains(parameter.key)) {
        CHECK(units[i] == 0.5);
        continue;
      }
      const bool is_range = !parameter.is_choice() && !parameter.is_integer();
      CHECK(units[i] == Approx(unit).margin(is_range ? 1e-12 : 0.5));
      if (!is_range) CHECK(parameter.at(units[i]) == point[parameter.key]);
    }
  }
}
