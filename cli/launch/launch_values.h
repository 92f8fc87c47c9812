// Option values of `lockstep launch`, from the command line or from PET_<NAME> variables.
#pragma once

#include <chrono>
#include <cxxopts.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

// PET_<NAME> of an option, such as PET_LOG_DIR.
std::string variable_of(const std::string& option);

class LaunchValues {
 public:
  explicit LaunchValues(const cxxopts::ParseResult& result) : result_(result) {}

  // Whether the option is given, in either way.
  bool has(const std::string& name) const { return given(name).has_value(); }
  // The given value; nullopt if not given. Throws Config if it is empty.
  std::optional<std::string> given(const std::string& name) const;
  // The same, of an option that may be given several times.
  std::vector<std::string> all(const std::string& name) const;
  // The given value, or the default.
  std::string text(const std::string& name) const;
  bool flag(const std::string& name) const;
  // Throws Config if it is not a number from `min` to `max`.
  int number(const std::string& name, int min, int max) const;
  // "30 s". Throws Config.
  std::chrono::milliseconds duration(const std::string& name) const;

 private:
  const cxxopts::ParseResult& result_;
};

// `what` names the value in errors. Throws Config.
int to_number(const std::string& what, const std::string& text, int min, int max);
// "30 s", or a plain number: seconds. Throws Config.
std::chrono::milliseconds to_duration(const std::string& what, const std::string& text);

}  // namespace lockstep::cli
