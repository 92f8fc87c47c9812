// The options of `lockstep launch` as they were given: on the command line, or as PET_<NAME>.
#pragma once

#include <chrono>
#include <cxxopts.hpp>
#include <optional>
#include <string>

namespace lockstep::cli {

class LaunchValues {
 public:
  explicit LaunchValues(const cxxopts::ParseResult& result) : result_(result) {}

  // Whether the user gave it, in one way or the other.
  bool has(const std::string& name) const { return given(name).has_value(); }
  // What the user gave; nullopt when nothing, Config when it is empty.
  std::optional<std::string> given(const std::string& name) const;
  // That, or the default.
  std::string text(const std::string& name) const;
  bool flag(const std::string& name) const;
  // Throws Config when it is not a number from `least` to `most`.
  int number(const std::string& name, int least, int most) const;
  // "30 s". Throws Config.
  std::chrono::milliseconds duration(const std::string& name) const;

 private:
  const cxxopts::ParseResult& result_;
};

// Throws Config, saying what `what` is.
int to_number(const std::string& what, const std::string& text, int least, int most);
// "30 s", or a plain number: seconds. Throws Config.
std::chrono::milliseconds to_duration(const std::string& what, const std::string& text);

}  // namespace lockstep::cli
