#include "core/run_id.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>

namespace lockstep {
namespace {

constexpr size_t kMaxNameLength = 80;
constexpr size_t kMaxIdLength = 200;

bool is_id_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

std::string safe_name(const std::string& name) {
  std::string safe;
  for (const char c : name.substr(0, kMaxNameLength))
    if (is_id_character(c))
      safe += c;
    else if (!safe.ends_with('-'))
      safe += '-';
  if (!name.ends_with('-'))
    while (safe.ends_with('-')) safe.pop_back();
  if (safe.empty() || safe.front() == '.' || safe.front() == '-') safe.insert(0, "run");
  return safe;
}

}  // namespace

std::string new_run_id(const std::string& name) {
  std::random_device device;
  return fmt::format("{}-{:%Y%m%d-%H%M%S}-{:06x}", safe_name(name), fmt::gmtime(std::time(nullptr)),
                     device() & 0xFFFFFF);
}

std::string job_run_id(const std::string& name, const std::string& job) {
  return fmt::format("{}-{}", safe_name(name), job);
}

std::string expected_run_id(const std::string& text) {
  auto expected = fmt::format(
      "expected letters, digits, '_', '.' and '-', at most {} characters, not beginning with '.'",
      kMaxIdLength);
  const auto path = text.substr(0, text.find_last_not_of('/') + 1);
  const auto name = path.substr(path.find_last_of('/') + 1);
  if (is_run_id(name)) expected += fmt::format("; did you mean '{}'?", name);
  return expected;
}

bool is_run_id(const std::string& text) {
  return !text.empty() && text.size() <= kMaxIdLength && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), is_id_character);
}

}  // namespace lockstep
