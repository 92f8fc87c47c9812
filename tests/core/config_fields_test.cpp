#include "lockstep/config_fields.h"

#include <catch2/catch.hpp>

#include "core/config/config_text.h"
#include "core/config/period.h"
#include "lockstep/config_value.h"
#include "tests/data/error_of.h"

namespace lockstep {
namespace {

enum class Mode { Fast, Safe };
constexpr auto choices(Mode) { return std::array{"fast", "safe"}; }

enum class Color { Red, Green };
constexpr auto choices(Color) { return std::array{"red", "green"}; }

struct Inner {
  int64_t depth = 2;
  Mode mode = Mode::Fast;
};
template <class V>
void fields(V& v, Inner& c) {
  v("depth", c.depth, "how deep", at_least(1), at_most(8));
  v("mode", c.mode, "how");
}

struct Outer {
  double lr = 0.1;
  double fraction = 0.5;
  std::optional<double> clip;
  std::vector<int64_t> hidden = {3};
  std::vector<Color> kinds;
  bool shuffle = true;
  std::string path;
  Period every{10, Period::Unit::Steps};
  Inner inner;
  bool warmup = false;
};
template <class V>
void fields(V& v, Outer& c) {
  v("lr", c.lr, "learning rate", above(0));
  v("fraction", c.fraction, "a part", at_least(0), below(1));
  v("clip", c.clip, "limit", above(0));
  v("hidden", c.hidden, "widths", at_least(1));
  v("kinds", c.kinds, "some of");
  v("shuffle", c.shuffle, "mix");
  v("path", c.path, "where", required());
  v("every", c.every, "how often");
  v("inner", c.inner, "more");
  v("warmup", c.warmup, "slow begin", needs("clip", "kinds"), needs("inner.mode: safe"));
}

struct Section {
  double decay = 0;
  int64_t every = 1;
  bool warmup = false;
};
template <class V>
void fields(V& v, Section& c) {
  v("decay", c.decay, "");
  v("every", c.every, "", needs("train.decay"));
  v("warmup", c.warmup, "", needs("data.eval"));
}

Outer read_outer(const std::string& text) {
  Outer config;
  read_fields(parse_config(text, "run.yaml"), "", config);
  return config;
}

std::string error_of_outer(const std::string& text) {
  return error_of([&] { read_outer("path: p\n" + text); });
}

}  // namespace

TEST_CASE("config fields: values that are set are read, others keep their defaults") {
  const auto config =
      read_outer("path: p\nlr: 0.5\ninner: {mode: safe}\nevery: 2 epochs\nhidden: [4, 5]\n");
  CHECK(config.lr == 0.5);
  CHECK(config.inner.mode == Mode::Safe);
  CHECK(config.inner.depth == 2);
  CHECK(config.every == Period{2, Period::Unit::Epochs});
  CHECK(config.hidden == std::vector<int64_t>{4, 5});
  CHECK(config.fraction == 0.5);
  CHECK_FALSE(config.clip);
  CHECK(read_outer("path: p\ninner:\n").inner.depth == 2);
}

TEST_CASE("config fields: an unknown key is an error with file, line, path and the nearest key") {
  CHECK(error_of_outer("lrr: 1\n") ==
        "config: run.yaml:2: lrr: unknown key; did you mean 'lr'? valid: lr, fraction, "
        "clip, hidden, kinds, shuffle, path, every, inner, warmup");
  CHECK(error_of_outer("inner:\n  dept: 1\n") ==
        "config: run.yaml:3: inner.dept: unknown key; did you mean 'depth'? valid: depth, mode");
  CHECK(error_of_outer("inner: {zzzzzzzz: 1}\n") ==
        "config: run.yaml:2: inner.zzzzzzzz: unknown key; valid: depth, mode");
  CHECK(error_of_outer("inner: {\"a\\nb\": 1}\n").find('\n') == std::string::npos);
}

TEST_CASE("config fields: an error for a number out of range states the limits") {
  CHECK(error_of_outer("lr: 0\n") == "config: run.yaml:2: lr: expected more than 0, got '0'");
  CHECK(error_of_outer("lr: -0.0\n") == "config: run.yaml:2: lr: expected more than 0, got '-0.0'");
  CHECK(error_of_outer("fraction: 1\n") ==
        "config: run.yaml:2: fraction: expected less than 1, got '1'");
  CHECK(error_of_outer("inner: {depth: 0}\n") ==
        "config: run.yaml:2: inner.depth: expected at least 1, got '0'");
  CHECK(error_of_outer("inner: {depth: 9}\n") ==
        "config: run.yaml:2: inner.depth: expected at most 8, got '9'");
  CHECK(error_of_outer("clip: 0\n") == "config: run.yaml:2: clip: expected more than 0, got '0'");
  CHECK(error_of_outer("clip: null\n") == "no error");
  CHECK(error_of_outer("hidden:\n  - 2\n  - 0\n") ==
        "config: run.yaml:4: hidden[1]: expected at least 1, got '0'");
}

TEST_CASE("config fields: an error for an unknown choice lists the valid ones") {
  CHECK(error_of_outer("inner: {mode: fats}\n") ==
        "config: run.yaml:2: inner.mode: unknown value 'fats'; did you mean 'fast'? valid: fast, "
        "safe");
  CHECK(error_of_outer("kinds: [red, gren]\n") ==
        "config: run.yaml:2: kinds[1]: unknown value 'gren'; did you mean 'green'? valid: red, "
        "green");
  CHECK(error_of_outer("kinds: [\"a\\nb\"]\n").find("unknown value 'a\\nb'") != std::string::npos);
}

TEST_CASE("config fields: a value that needs another setting is an error without it") {
  const std::string safe = "inner: {mode: safe}\n";
  CHECK(error_of_outer(safe + "warmup: true\n") ==
        "config: run.yaml:3: warmup: has no effect without clip or kinds");
  CHECK(error_of_outer(safe + "clip: null\nkinds: []\nwarmup: true\n") ==
        "config: run.yaml:5: warmup: has no effect without clip or kinds");
  CHECK(error_of_outer("kinds: [red]\nwarmup: true\n") ==
        "config: run.yaml:3: warmup: has no effect without inner.mode: safe");
  CHECK(error_of_outer(safe + "kinds: [red]\nwarmup: true\n") == "no error");
  CHECK(error_of_outer(safe + "warmup: true\nclip: 1\n") == "no error");
  CHECK(error_of_outer("warmup: false\n") == "no error");
}

TEST_CASE("config fields: a section read alone checks only its own settings") {
  const auto error = [](const std::string& text) {
    return error_of([&] {
      Section config;
      read_fields(parse_config(text, "run.yaml"), "train", config);
    });
  };
  CHECK(error("every: 2\n") ==
        "config: run.yaml:1: train.every: has no effect without train.decay");
  CHECK(error("every: 2\ndecay: 0.5\n") == "no error");
  CHECK(error("warmup: true\n") == "no error");
}

TEST_CASE("config fields: a missing required value is an error") {
  CHECK(error_of([] { read_outer("lr: 1\n"); }) == "config: run.yaml:1: path: is required");
  CHECK(error_of([] { read_outer(""); }).ends_with("path: is required"));
}

TEST_CASE("config fields: a value instead of a map is an error, and vice versa") {
  CHECK(error_of_outer("inner: 3\n") ==
        "config: run.yaml:2: inner: expected a map of 'key: value', got '3'");
  CHECK(error_of_outer("inner: depth:3\n") ==
        "config: run.yaml:2: inner: expected a map of 'key: value', with a space after ':', got "
        "'depth:3'");
  CHECK(error_of_outer("inner:{depth: 3}\n") ==
        "config: run.yaml:2: inner:{depth: expected a space after 'inner:'");
  CHECK(error_of_outer("inner: [1]\n") ==
        "config: run.yaml:2: inner: expected a map of 'key: value', got a list of 1");
  CHECK(error_of_outer("lr: {a: 1}\n") == "config: run.yaml:2: lr: expected a number, got a map");
}

TEST_CASE("config fields: an override is as strict as the file and is named in errors") {
  auto root = parse_config("path: p\n", "run.yaml");
  apply_override(root, "inner.depth=12");
  Outer config;
  CHECK(error_of([&] { read_fields(root, "", config); }) ==
        "config: argument 'inner.depth=12': inner.depth: expected at most 8, got '12'");
}

TEST_CASE("config fields: the schema has types, defaults, limits and required fields") {
  const auto schema = ConfigDescriber::describe(Outer{});
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["required"] == Json::array({"path"}));
  const auto& properties = schema["properties"];
  CHECK(properties["lr"]["type"] == "number");
  CHECK(properties["lr"]["default"] == 0.1);
  CHECK(properties["lr"]["exclusiveMinimum"] == 0.0);
  CHECK(properties["lr"]["description"] == "learning rate");
  CHECK_FALSE(properties["path"].contains("default"));
  CHECK(properties["clip"]["anyOf"][0]["exclusiveMinimum"] == 0.0);
  CHECK(properties["clip"]["default"].is_null());
  CHECK(properties["hidden"]["items"]["minimum"] == 1.0);
  CHECK(properties["kinds"]["items"]["enum"] == Json::array({"red", "green"}));
  CHECK(properties["warmup"]["description"] ==
        "slow begin; needs clip or kinds; needs inner.mode: safe");
  CHECK(properties["every"]["default"] == "10 steps");
  CHECK(properties["inner"]["properties"]["mode"]["enum"] == Json::array({"fast", "safe"}));
}

TEST_CASE("config fields: help has a line per key with type, default and description") {
  const auto help = render_help(ConfigDescriber::describe(Outer{}));
  for (const std::string line :
       {"lr (number = 0.1)  learning rate\n", "path (string, required)  where\n",
        "clip (number|null = null)  limit\n", "hidden (list of integer = [3])  widths\n",
        "kinds (list of red|green = [])  some of\n", "shuffle (boolean = true)  mix\n",
        "inner:  more\n", "  mode (fast|safe = \"fast\")  how\n"}) {
    INFO(line);
    CHECK(help.find(line) != std::string::npos);
  }
}

}  // namespace lockstep
