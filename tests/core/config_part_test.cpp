#include <catch2/catch.hpp>

#include "core/config/config_text.h"
#include "lockstep/part.h"
#include "tests/data/error_of.h"

namespace lockstep {
namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};
using ShapeRegistry = Registry<Shape, double>;

struct SquareConfig {
  double side = 1;
};
template <class V>
void fields(V& v, SquareConfig& c) {
  v("side", c.side, "length", above(0));
}
struct Square : Shape {
  using Config = SquareConfig;
  Square(const Config& config, double scale) : side_(config.side * scale) {}
  double area() const override { return side_ * side_; }
  double side_;
};

struct BoxConfig {
  std::vector<int64_t> sides = {1, 1};
};
template <class V>
void fields(V& v, BoxConfig& c) {
  v("sides", c.sides, "lengths");
}
struct Box : Shape {
  using Config = BoxConfig;
  Box(const Config& config, double scale) : config_(config), scale_(scale) {}
  double area() const override {
    return static_cast<double>(config_.sides[0] * config_.sides[1]) * scale_;
  }
  Config config_;
  double scale_;
};

ShapeRegistry& shapes() {
  static ShapeRegistry registry("shape");
  static const Registration<Square> square(registry, "square", "four equal sides");
  static const Registration<Box> box(registry, "box", "two pairs");
  return registry;
}

struct Drawing {
  Part<Shape, double> front{shapes()};
  Part<Shape, double> back{shapes(), "square"};
};
template <class V>
void fields(V& v, Drawing& c) {
  v("front", c.front, "seen first");
  v("back", c.back, "seen last");
}

struct StrictDrawing {
  Part<Shape, double> front{shapes()};
};
template <class V>
void fields(V& v, StrictDrawing& c) {
  v("front", c.front, "seen first", required());
}

template <class Config = Drawing>
Config read_drawing(const std::string& text) {
  Config config;
  read_fields(parse_config(text, "run.yaml"), "", config);
  return config;
}

template <class Config = Drawing>
std::string error_of_drawing(const std::string& text) {
  return error_of([&] { read_drawing<Config>(text); });
}

}  // namespace

TEST_CASE("part: the name selects the class, the other keys are its config") {
  const auto drawing = read_drawing("front: {name: box, sides: [2, 3]}\n");
  CHECK(drawing.front.name() == "box");
  CHECK(drawing.front.build(10)->area() == 60);
}

TEST_CASE("part: a default name is used, also for settings without a name or an empty value") {
  CHECK(read_drawing("").back.build(3)->area() == 9);
  CHECK(read_drawing("back: {side: 2}\n").back.build(1)->area() == 4);
  CHECK(read_drawing("back:\n").back.build(3)->area() == 9);
}

TEST_CASE("part: without a default nothing is selected, which is dumped as null") {
  CHECK_FALSE(read_drawing("").front.is_set());
  CHECK_FALSE(read_drawing("front: null\n").front.is_set());
  CHECK(error_of_drawing<StrictDrawing>("front: null\n") ==
        "config: run.yaml:1: front: expected a map such as {name: box}, got nothing");
  CHECK(error_of_drawing<StrictDrawing>("").ends_with("front: is required"));
}

TEST_CASE("part: errors list the registered names") {
  CHECK(error_of_drawing("front: {name: sqare}\n") ==
        "config: run.yaml:1: front.name: unknown shape 'sqare'; did you mean 'square'? valid: box, "
        "square");
  CHECK(error_of_drawing("front: {name: \"x\\ny\"}\n").find("unknown shape 'x\\ny'") !=
        std::string::npos);
  CHECK(error_of_drawing("front: square\n") ==
        "config: run.yaml:1: front: expected a map such as {name: square}, got 'square'");
  CHECK(error_of_drawing("front: sqare\n") ==
        "config: run.yaml:1: front: expected a map such as {name: square}, got 'sqare'");
  CHECK(error_of_drawing("front: circle\n") ==
        "config: run.yaml:1: front: expected a map such as {name: box}, got 'circle'");
  CHECK(error_of_drawing("front: {side: 2}\n") ==
        "config: run.yaml:1: front.name: is required; valid: box, square");
  CHECK(error_of_drawing("front: {name: [1]}\n") ==
        "config: run.yaml:1: front.name: expected a string, got a list of 1");
}

TEST_CASE("part: a key of another class is unknown") {
  CHECK(error_of_drawing("front:\n  name: box\n  side: 2\n") ==
        "config: run.yaml:3: front.side: unknown key; did you mean 'sides'? valid: name, sides");
  CHECK(error_of_drawing("front: {name: square, side: 0}\n") ==
        "config: run.yaml:1: front.side: expected more than 0, got '0'");
}

TEST_CASE("part: the dump has the name and all settings, and can be read") {
  const auto drawing = read_drawing("front: {name: box, sides: [2, 3]}\n");
  const auto json = ConfigDumper::dump(drawing);
  CHECK(json["front"] == Json({{"name", "box"}, {"sides", {2, 3}}}));
  CHECK(json["back"] == Json({{"name", "square"}, {"side", 1.0}}));
  CHECK(ConfigDumper::dump(read_drawing(to_yaml(json))) == json);
}

TEST_CASE("part: an unset part is dumped as null, and can be read") {
  const auto json = ConfigDumper::dump(read_drawing(""));
  CHECK(json["front"].is_null());
  CHECK(ConfigDumper::dump(read_drawing(to_yaml(json))) == json);
}

TEST_CASE("part: the schema has a variant per registered name") {
  const auto schema = ConfigDescriber::describe(Drawing{});
  const auto& front = schema["properties"]["front"]["anyOf"];
  REQUIRE(front.size() == 3);
  CHECK(front[2] == Json({{"type", "null"}}));  // as dumped if nothing is selected
  CHECK(schema["properties"]["back"]["anyOf"].size() == 2);
  CHECK(front[0]["properties"]["name"]["const"] == "box");
  CHECK(front[0]["description"] == "two pairs");
  CHECK(front[0]["required"] == Json::array({"name"}));
  CHECK(front[1]["properties"]["side"]["default"] == 1.0);
  // The name of the default may be omitted.
  CHECK_FALSE(schema["properties"]["back"]["anyOf"][1].contains("required"));
  CHECK(render_help(schema).find(
            "  name: square  four equal sides\n    side (number = 1.0)  length\n") !=
        std::string::npos);
}

TEST_CASE("registry: names are sorted, and duplicate names are reported") {
  CHECK(shapes().names() == std::vector<std::string>{"box", "square"});
  CHECK(shapes().kind() == "shape");
  CHECK(shapes().find("circle") == nullptr);
  CHECK_NOTHROW(shapes().verify());
  ShapeRegistry registry("shape");
  const Registration<Square> first(registry, "square", "one");
  CHECK_NOTHROW(registry.verify());
  const Registration<Box> second(registry, "square", "two");
  CHECK(error_of([&] { registry.verify(); }) ==
        "config: two shapes are registered as 'square': rename the one in the plugin");
  CHECK(registry.find("square")->help == "one");
}

}  // namespace lockstep
