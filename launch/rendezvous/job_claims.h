// Which side continues a job whose network is cut, with --on-rank-loss continue: a launcher that wants
// the others to continue without a node, or to become the coordinator in place of one, must claim the
// job first. Claims are numbered files in the run directory, which all nodes share. Each number is
// claimed once, and only by a launcher that the claim before it contains, so two sides never both
// continue. The files stay: a launcher that was stopped for a long time must find them. Thread: one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::launch {

// Where the claims of a run are. `runs_dir`: run.dir, shared by all nodes.
std::filesystem::path claims_directory(const std::filesystem::path& runs_dir,
                                       const std::string& run_id);
// Whether this node sees the claim, so that it shares the directory. A network file system may cache for a
// while that a file did not exist: try again.
bool can_see_claim(const std::filesystem::path& directory, const std::string& name);

class JobClaims {
 public:
  // `directory`: created with the first claim. `key`: of the attempt. `node`: the number of this one.
  // `num_claims`: that are known so far.
  JobClaims(std::filesystem::path directory, std::string key, int node, int64_t num_claims = 0);

  // Claims the job for `nodes`, which contain this one. Returns false if others have claimed it without
  // this node. Throws Environment (the directory is not writable, ...).
  bool claim(const std::vector<int>& nodes);
  int64_t count() const { return num_claims_; }
  std::string newest() const;  // the name of its file
  // Of the next claim.
  std::filesystem::path file() const;

 private:
  bool contains_this_node(const std::filesystem::path& file) const;

  std::filesystem::path directory_;
  std::string key_;
  int node_;
  int64_t num_claims_;
};

}  // namespace lockstep::launch
