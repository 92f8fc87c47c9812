// Connections that nobody works for: those whose next request has not come as a whole, however
// slowly it comes, and those that are only to be closed in good order. One thread has them all, so
// that a client that sends little or nothing costs a file descriptor for some seconds, and no one
// else's time.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/mutex.h"
#include "dashboard/api/request_extent.h"

namespace lockstep::dashboard {

// A connection with a whole request.
struct HttpArrival {
  FileDescriptor socket;
  std::string request;   // head and body
  std::string rest;      // what came behind it already
  bool is_last = false;  // nothing can follow it
  int num_served = 0;    // requests of this connection before it
};

struct ReceptionLimits {
  RequestLimits request;
  size_t connections = 512;  // one more: the one that has waited longest goes
  // For a whole request, from the connection's beginning or the last answer on.
  std::chrono::milliseconds patience{5000};
  // For a client to take notice that its connection is over, and how much is read of it meanwhile.
  std::chrono::milliseconds farewell{2000};
  size_t farewell_bytes = 1u << 20;
};

// Thread: any.
class HttpConnections {
 public:
  // `take` is called by the reception's thread, must not block, and is over when stop() returns.
  HttpConnections(ReceptionLimits limits, std::function<void(HttpArrival)> take);
  ~HttpConnections();
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

  // A connection that is new or goes on; `received` was read of its next request already.
  void add(FileDescriptor socket, std::string received = {}, int num_served = 0);
  // One that is over: says so, and closes it when the client did or has had its time. Closing at
  // once would lose an answer that is still on its way.
  void dismiss(FileDescriptor socket);
  // Closes everything.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Guest {
    FileDescriptor socket;
    std::string received;
    int num_served = 0;
    bool is_leaving = false;
    size_t num_read = 0;
    Clock::time_point until;
  };

  void enter(Guest guest);
  void work();
  std::vector<Guest> newcomers(bool& stopping);
  void wait(std::chrono::milliseconds most);
  bool look_at(Guest& guest, bool has_news);  // false: it is no longer here
  bool receive(Guest& guest);
  bool read_some(Guest& guest, bool& is_over);

  ReceptionLimits limits_;
  std::function<void(HttpArrival)> take_;
  FileDescriptor bell_;
  Mutex mutex_;
  std::vector<Guest> arriving_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;

  // The thread's own. The first has waited longest.
  std::list<Guest> guests_;
  std::vector<short> events_;  // of the guests, in their order, as poll() told them
  std::jthread thread_;        // last: it uses all of the above
};

}  // namespace lockstep::dashboard
