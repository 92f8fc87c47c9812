// The secret of a scheduler's job whose nodes share only a file system: a file next to the runs
// that only the user can read. The coordinator's node creates it, the others wait for it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace lockstep::launch {

class JobToken {
 public:
  // <directory>/.lockstep-<job>.token. Throws Config if it is readable by other users, Environment if
  // it cannot be written or does not appear within `timeout`, with the alternative.
  JobToken(const std::filesystem::path& directory, const std::string& job, bool serves,
           std::chrono::milliseconds timeout);
  // The node that created the file removes it, and the directory if it was created for it and is
  // empty.
  ~JobToken();
  JobToken(const JobToken&) = delete;
  JobToken& operator=(const JobToken&) = delete;

  const std::string& text() const { return text_; }

 private:
  std::filesystem::path file_;
  std::string text_;
  bool serves_, created_directory_ = false;
};

}  // namespace lockstep::launch
