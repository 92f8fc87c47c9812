// Reads datasets of conversations in JSON Lines, and counts the records that cannot be used.
// No LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

class ChatRecords {
 public:
  // Skips up to `max_bad` records that cannot be used.
  explicit ChatRecords(int64_t max_bad) : max_bad_(max_bad) {}

  // Calls `add` with each line of `path`, a file, plain or compressed, or a folder of them. `add`
  // throws Config for a record that cannot be used. Throws Config, naming file and line.
  void read(const std::string& path, const std::function<void(std::string_view line)>& add);

  // What was skipped, as a warning about `name`; empty: nothing.
  std::vector<std::string> warnings(const std::string& name) const;

 private:
  void skip(const std::string& problem);

  int64_t max_bad_, num_bad_ = 0;
  std::string first_bad_;
};

}  // namespace lockstep::data
