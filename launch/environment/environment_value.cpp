#include "launch/environment/environment_value.h"

#include <fmt/format.h>

#include "core/number_text.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::launch {

int number_in_variable(const std::string& text, const std::string& name) {
  const auto value = parse_number<int>(text);
  if (!value || *value < 0)
    throw config_error(
        fmt::format("environment variable {}={}: expected a number of at least 0", name, text));
  return *value;
}

std::optional<int> read_int_variable(const char* name) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  return number_in_variable(*text, name);
}

int require_int_variable(const char* name, const char* because) {
  const auto value = read_int_variable(name);
  if (!value)
    throw config_error(
        fmt::format("environment variable {} is missing, but {} is set", name, because));
  return *value;
}

void contradict(const char* first, int first_value, const char* second, int second_value,
                const char* what_is_valid) {
  throw config_error(fmt::format("environment variables {}={} and {}={} contradict each other: {}",
                                 first, first_value, second, second_value, what_is_valid));
}

}  // namespace lockstep::launch
