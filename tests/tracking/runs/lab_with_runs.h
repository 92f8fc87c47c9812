// A directory of runs, and `lockstep runs` on it.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cli/runs/runs_command.h"
#include "lockstep/error.h"
#include "tests/tracking/runs_of_a_lab.h"

namespace lockstep::tracking {

class LabWithRuns {
 public:
  std::string operator()(std::vector<std::string> words, const cli::AskUser& ask = {}) {
    words.insert(words.end(), {"--dir", path().string()});
    std::ostringstream out, notes;
    code_ = cli::run_runs_command(words, out, notes, ask);
    notes_ = notes.str();
    return out.str();
  }
  Json json(std::vector<std::string> words) {
    words.emplace_back("--json");
    return Json::parse((*this)(std::move(words)));
  }
  std::string error_of(const std::vector<std::string>& words) {
    try {
      (*this)(words);
    } catch (const Error& error) {
      return std::string(kind_name(error.kind())) + ": " + error.what();
    }
    return "no error";
  }
  std::vector<std::string> ids() {
    std::vector<std::string> ids;
    for (const auto& run : json({"list"})) ids.push_back(run["id"]);
    return ids;
  }

  void add(const std::string& id, double created = 1700000000) {
    add_job(path(), id, RankSelection{}, 1, created);
  }
  void add_all_ranks(const std::string& id) {
    add_job(path(), id, RankSelection{.kind = RankSelection::Kind::All}, 2, 1700000000);
  }

  const std::filesystem::path& path() const { return runs_.path(); }
  std::filesystem::path operator/(const std::string& name) const { return runs_ / name; }
  int code() const { return code_; }
  const std::string& notes() const { return notes_; }

 private:
  TemporaryDirectory runs_;
  int code_ = 0;
  std::string notes_;
};

}  // namespace lockstep::tracking
