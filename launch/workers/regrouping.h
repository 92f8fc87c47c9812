// Which workers of a node form the group of ranks, with --on-rank-loss continue. When a worker of the
// group is killed, the others ask for a place (launch/workers/group_member.h). Once all of them have
// asked, they and the spares form the next group: as many ranks as before or, if too few are left,
// the largest power of two. A worker that leaves after a step is let go first; if all would leave, all
// are refused. Those with the most training steps get the lowest ranks, so rank 0 has
// the state that the others receive. The remaining workers wait as spares, without a state. Thread: the
// launcher's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/poll_set.h"
#include "launch/workers/group_member.h"

namespace lockstep::launch {

class Regrouping {
 public:
  // Workers are numbered: 0 to num_ranks - 1 are the ranks of the first group, the others spares.
  // `directory`: of the files through which later groups connect.
  Regrouping(int num_ranks, int num_spares, std::filesystem::path directory);
  ~Regrouping();  // removes those files
  Regrouping(const Regrouping&) = delete;
  Regrouping& operator=(const Regrouping&) = delete;

  // The descriptor that the worker inherits; the caller closes it once the worker has started.
  FileDescriptor take_worker_end(int worker);

  void watch(PollSet& polls);
  // Answers the requests received. Call after each poll, and after lose() and leave().
  void update();

  // The worker was killed; `what`: "killed by SIGKILL". Returns false if no member of the group is
  // left to continue: the job has failed.
  bool lose(int worker, const std::string& what);
  // The worker exited by itself. When no member of the group is left, waiting workers learn that
  // the job has ended.
  void leave(int worker);
  // No new group is formed: workers are being stopped.
  void stop();

  // Rank in the current group; nullopt for spares, and for workers that have ended.
  std::optional<int> rank_of(int worker) const;
  int world_size() const { return world_size_; }
  // Whether the others have continued without a lost worker.
  bool is_replaced(int worker) const { return members_[static_cast<size_t>(worker)].is_replaced; }

  // Whether a group was formed since the last call.
  bool take_changed() { return std::exchange(changed_, false); }
  // Messages for the user since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Member {
    FileDescriptor link, worker_end;
    bool is_alive = true, is_readable = false;
    bool is_lost = false, is_replaced = false;
    bool has_left = false, has_quit = false;  // a group; while it waited for one
    std::optional<int> rank;                  // in the current group
    std::optional<GroupRequest> asked;        // of a worker that waits for an answer

    bool is_in_group() const { return is_alive && rank.has_value(); }
    bool asks_to(GroupRequest::Kind kind) const {
      return is_in_group() && asked && asked->kind == kind;
    }
  };

  void receive(Member& member);
  void handle(Member& member, const GroupRequest& request);
  void answer(Member& member, const GroupAnswer& answer);
  bool has_members() const;
  bool all_have_asked() const;
  bool is_leaving_asked() const;
  bool is_letting_go() const;
  bool let_go();
  void form_group();
  void refuse_members(bool only_broken = false);

  std::vector<Member> members_;
  const int max_ranks_;
  int world_size_;
  const std::filesystem::path directory_;
  std::vector<std::filesystem::path> stores_;
  std::vector<LostRank>
      lost_;  // since the last group was formed, of its ranks; also those that left
  bool is_stopping_ = false, changed_ = false;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
