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
  // connections meanwhile.
  void begin();
  void end();
  // The groups are closed.
  void forget();

  // Shuts down those that are open: what waits for them fails, on both ends.
  void shut_down();

 private:
  Mutex mutex_;
  std::set<ino_t> earlier_ GUARDED_BY(mutex_), own_ GUARDED_BY(mutex_);
  bool is_opening_ GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::distributed
