// The worker's end of its connection to the launcher with --on-rank-loss continue
// (launch/protocol/group_messages.h).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "core/system/file_descriptor.h"
#include "core/system/mutex.h"
#include "launch/protocol/group_messages.h"
#include "launch/protocol/master_socket.h"

namespace lockstep::launch {

// Thread: one.
class GroupMember {
 public:
  // `fd`: LOCKSTEP_GROUP_FD; closed on exec from now on. `address`: at which the other nodes reach
  // this one; empty if there are none.
  explicit GroupMember(int fd, std::string address = "");

  // Sends a request and waits for the answer, for at most `timeout`; nullopt: as long as the launcher
  // runs. Refused on timeout. After Wait, call wait(). Throws Environment (no more sockets).
  GroupAnswer ask(GroupRequest request, std::optional<std::chrono::milliseconds> timeout);

  // The answer that follows Wait: Join, End or Refused. Waits for as long as the launcher runs.
  GroupAnswer wait();

  // Whether there can be more ranks, since the last call: this one should ask for another place after a
  // step. Of a rank; does not wait.
  bool take_invitation();

  // After Join: the socket on which the others connect, if this is their rank 0; the caller owns it.
  std::optional<int> take_listener(const GroupAnswer& place);

  // `fd`: readable from the time on when a worker without a place is to end: a spare, or one that was
  // answered Wait. It then asks the launcher for that. Outlives this.
  void quit_when_readable(int fd) { quit_fd_ = fd; }

 private:
  bool send(const GroupRequest& request) const;
  GroupAnswer receive(std::optional<std::chrono::milliseconds> timeout, bool may_quit);

  FileDescriptor fd_;
  const std::string address_;
  MasterSocket listener_;
  int quit_fd_ = -1;             // -1: none
  bool is_answer_late_ = false;  // of a request that timed out
};

// While a rank of this worker's group is lost, calls a function every 100 ms, on another thread, until
// the group is left.
class LossWatch {
 public:
  // `fd`: LOCKSTEP_LOSS_FD, an eventfd (GroupLinks::loss_fd()); closed on exec from now on. The worker is
  // in the first group, number 0. Throws Environment.
  LossWatch(int fd, std::function<void()> on_loss);
  ~LossWatch();
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;

  // The worker has left its group. The function is not running when this returns. Thread: any other.
  void leave();
  // The worker enters this group: a loss of an earlier one no longer counts; one of this group does, also
  // if it was reported before. Thread: any other.
  void enter(int64_t group);

 private:
  void watch(const std::stop_token& stop);
  void wake() const;

  const int fd_;         // of the process, which may watch again
  FileDescriptor wake_;  // eventfd
  std::function<void()> on_loss_;
  Mutex mutex_;
  std::optional<int64_t> group_ GUARDED_BY(mutex_) = 0;  // nullopt: left
  int64_t lost_groups_ = 0;  // of the watcher; see GroupLinks::loss_fd()
  std::jthread watcher_;
};

}  // namespace lockstep::launch
