// Requirements on every registered part, checked for each name: a new part is covered without a
// test for it.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lockstep/sink.h"
#include "trainer/config/run_config.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

template <class RegistryType>
void check_registry(const RegistryType& registry) {
  INFO("registry of " << registry.kind());
  CHECK_FALSE(registry.entries().empty());
  CHECK_NOTHROW(registry.verify());
  for (const auto& entry : registry.entries()) {
    INFO("part " << entry.name);
    CHECK_FALSE(entry.help.empty());
    const auto blueprint = entry.make();
    const auto defaults = blueprint->dump();
    const auto schema = blueprint->schema();
    for (const auto& [name, field] : schema["properties"].items()) {
      INFO("field " << name);
      CHECK_FALSE(field["description"].template get<std::string>().empty());
    }
    if (schema.contains("required")) continue;  // the defaults are not a complete configuration
    // The resolved configuration reads back unchanged.
    const auto node = parse_config("part: " + Json(defaults).dump(), entry.name);
    const auto again = entry.make();
    again->read(*node.find("part"), "part");
    CHECK(again->dump() == defaults);
  }
}

}  // namespace

TEST_CASE(
    "parts: every registered part has help, valid defaults and a configuration that reads back") {
  check_registry(model_registry());
  check_registry(dataset_registry());
  check_registry(optimizer_registry());
  check_registry(schedule_registry());
  // Hooks of the tests; Lockstep itself has none.
  check_registry(hook_registry());
  check_registry(sink_registry());
}

TEST_CASE(
    "parts: every registered model trains: a loss, a gradient for each parameter, the batch's "
    "count") {
  for (const auto& entry : model_registry().entries()) {
    INFO("model " << entry.name);
    // Parts that need a file are tested in tests/e2e/test_compiled.py.
    if (entry.make()->schema().contains("required")) continue;
    const auto defaults = entry.make()->dump();
    const auto channels = defaults.value("in_channels", int64_t{1});
    const auto size = defaults.value("image_size", int64_t{28});
    const auto model = entry.make()->build();
    const Batch batch{.fields = {{"image", at::rand({3, channels, size, size})},
                                 {"label", at::tensor({0, 1, 2}, at::kLong)},
                                 {"tokens", at::arange(24).view({3, 8})},
                                 {"targets", at::arange(24).view({3, 8})}},
                      .indices = at::arange(3)};
    const auto outputs = model->forward(batch);
    REQUIRE(outputs.loss.defined());
    CHECK(outputs.loss.dim() == 0);
    CHECK(outputs.count == 3);
    CHECK(outputs.targets.defined() == !model->target_name().empty());
    if (outputs.targets.defined()) CHECK(at::equal(outputs.targets, model->count_targets(batch)));
    outputs.loss.backward();
    for (const auto& parameter : model->named_parameters()) {
      INFO("parameter " << parameter.key());
      CHECK(parameter.value().grad().defined());
    }
  }
}
