#include "trainer/metrics/dataset_metadata.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

bool are_names(const Json& value) {
  return value.is_array() &&
         std::ranges::all_of(value, [](const Json& name) { return name.is_string(); });
}

}  // namespace

Json metadata_of(const Dataset& dataset, const std::string& name) {
  constexpr size_t kShown = 100;
  const auto given = dataset.metadata();
  if (given.is_null()) return given;
  // Such as the names of folders.
  const auto text = given.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto metadata = Json::parse(text);
  const auto require = [&](bool is_valid, const Json& value, const char* key,
                           const char* expected) {
    if (!is_valid)
      throw config_error(fmt::format("{}: metadata() of the dataset: {}expected {}, got {}", name,
                                     key, expected, printable(value.dump(), kShown)));
  };
  require(metadata.is_object(), metadata, "", "an object");
  if (const auto found = metadata.find("classes"); found != metadata.end())
    require(are_names(*found), *found, "'classes': ", "a list of strings");
  if (const auto found = metadata.find("vocabulary"); found != metadata.end())
    require(found->is_number_integer(), *found,
            "'vocabulary': ", "an integer, the number of tokens");
  return metadata;
}

int64_t vocabulary_of(const data::TrainAndEval& data) {
  int64_t greatest = 0;
  const auto add = [&](const Dataset* dataset, const char* name) {
    const auto metadata = dataset ? metadata_of(*dataset, name) : Json();
    if (metadata.is_object()) greatest = std::max(greatest, metadata.value("vocabulary", greatest));
  };
  add(data.train.get(), "data.train");
  add(data.eval.get(), "data.eval");
  return greatest;
}

}  // namespace lockstep::trainer
