#include "tracking/sinks/mlflow/mlflow_text.h"

#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::tracking;

TEST_CASE("mlflow text: names contain only characters that MLflow accepts") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"train/loss", "train/loss"},
      {"A z_-.:9", "A z_-.:9"},
      {"a=b[0]%", "a_b_0__"},
      {"gr\xc3\xb6\xc3\x9f"
       "e",
       "gr__e"},
      {"/x", "_/x"},
      {"x/", "x/_"},
      {"x//y/./../z", "x/_/y/_/__/z"},
      {"", "_"},
      {std::string(250, 'n'), std::string(250, 'n')},
  };
  for (const auto& [ours, theirs] : rows) CHECK(mlflow_name(ours) == theirs);
  const auto cut = mlflow_name(std::string(251, 'n'));
  CHECK(cut.size() == 250);
  CHECK(cut != mlflow_name(std::string(252, 'n')));
}

TEST_CASE("mlflow text: metric names stay distinct, also after a restart") {
  MlflowMetricNames names(nullptr);
  CHECK(names.of("a=") == "a_");
  CHECK(names.of("b") == "b");
  const auto second = names.of("a+");
  CHECK(second.starts_with("a_-"));
  CHECK(names.of("a_").starts_with("a_-"));
  CHECK(names.of("a_") != second);

  MlflowMetricNames later(names.state());
  CHECK(later.of("a+") == second);
  CHECK(later.of("a=") == "a_");
  CHECK(later.of("a_") == names.of("a_"));
  CHECK_FALSE(names.state().contains("b"));
}

TEST_CASE("mlflow text: values are truncated between characters and marked") {
  CHECK(mlflow_value("short", 20) == "short");
  CHECK(mlflow_value(std::string("a\0b", 3), 20) == "ab");
  CHECK(mlflow_value("x\xff", 20) == "x\xef\xbf\xbd");
  CHECK(mlflow_value("0123456789012345678901", 20) == "0123456789 ... (cut)");
  CHECK(mlflow_value("012345678\xc3\xa4"
                     "0123456789",
                     20) == "012345678 ... (cut)");
}

TEST_CASE("mlflow text: a config as params") {
  const Json config = {{"a", {{"b", 1}, {"c", {{"d", "text"}}}, {"none", Json::object()}}},
                       {"list", {1, "x", nullptr}},
                       {"empty", Json::array()},
                       {"maps", {{{"k", true}}, 5}},
                       {"tracking", {{"sinks", {"mlflow"}}}}};
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"a.b", "1"},    {"a.c.d", "text"},    {"list", R"([1,"x",null])"},
      {"empty", "[]"}, {"maps.0.k", "true"}, {"maps.1", "5"}};
  CHECK(mlflow_params(config) == expected);
  CHECK(mlflow_params(nullptr).empty());
}
