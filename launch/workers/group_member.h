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

// Calls a function, on another thread, when the launcher reports that a rank of the group was lost.
class LossWatch {
 public:
  // `fd`: LOCKSTEP_LOSS_FD, an eventfd; closed on exec from now on. Throws Environment.
  LossWatch(int fd, std::function<void()> on_loss);
  ~LossWatch();
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;

  // Forgets losses that were reported until now, of an earlier group. The function is not running
  // when this returns. Thread: any other.
  void forget();

 private:
  void watch(const std::stop_token& stop);
  bool take_loss() REQUIRES(mutex_);

  const int fd_;         // of the process, which may watch again
  FileDescriptor wake_;  // eventfd, written by the destructor
  std::function<void()> on_loss_;
  Mutex mutex_;
  std::jthread watcher_;
};

}  // namespace lockstep::launch
