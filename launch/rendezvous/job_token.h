// The secret of a scheduler's job whose nodes share a file system and nothing else: a file that
// only the user can read, beside the runs. The node that serves the rendezvous makes it, the others
// wait for it.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::launch {

class JobToken {
 public:
  // <directory>/.lockstep-<job>.token. Throws Config when others may read it or nothing comes
  // within a minute, saying what else to do, Environment when it cannot be written.
  JobToken(const std::filesystem::path& directory, const std::string& job, bool serves);
  // The node that made it removes it, and the directory, where that was made for it and is empty.
  ~JobToken();
  JobToken(const JobToken&) = delete;
  JobToken& operator=(const JobToken&) = delete;

  const std::string& text() const { return text_; }

 private:
  std::filesystem::path file_;
  std::string text_;
  bool serves_, made_directory_ = false;
};

}  // namespace lockstep::launch
