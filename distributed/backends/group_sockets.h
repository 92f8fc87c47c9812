// The sockets of a World's process groups and store, so that another thread can end collectives that
// wait for a lost rank: LibTorch's Gloo cannot. Only files of distributed/ include this.
#pragma once

#include <sys/types.h>

#include <set>

#include "core/system/mutex.h"

namespace lockstep::distributed {

// Thread: any.
class GroupSockets {
 public:
  // Sockets that this process opens between begin() and end() are theirs. No other thread may open
  // connections meanwhile, except for a group that was given up.
  void begin();
  void end();
  // The groups are closed.
  void forget();

  // Shuts down those that are open: what waits for them fails, on both ends. May be called again, for
  // sockets that were opened since. Returns how often it was called for the current groups.
  int shut_down();
  int num_shut_downs();

 private:
  Mutex mutex_;
  std::set<ino_t> earlier_ GUARDED_BY(mutex_), own_ GUARDED_BY(mutex_);
  bool is_opening_ GUARDED_BY(mutex_) = false;
  int num_shut_downs_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::distributed
