// Connections without a worker: those whose next request is incomplete, and those that are being
// closed. One thread polls all of them, so that a slow or idle client occupies a file descriptor
// for a few seconds, but no worker thread.
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

// A connection with a complete request.
struct ReceivedRequest {
  FileDescriptor socket;
  std::string bytes;     // head and body
  std::string rest;      // bytes received after it
  bool is_last = false;  // no request can follow on this connection
  int num_served = 0;    // earlier requests of this connection
};

struct ConnectionLimits {
  RequestLimits request;
  size_t max_connections = 512;  // one more evicts the connection that has waited longest
  // For a complete request, from the start of the connection or from the previous response.
  std::chrono::milliseconds request_timeout{5000};
  // When closing: how long to wait for the client to close too, and how many of its bytes to
  // discard meanwhile.
  std::chrono::milliseconds linger_timeout{2000};
  size_t linger_bytes = 1u << 20;
};

// Thread: any.
class HttpConnections {
 public:
  // `on_request` is called by the polling thread and must not block. It is not called after stop()
  // has returned.
  HttpConnections(ConnectionLimits limits, std::function<void(ReceivedRequest)> on_request);
  ~HttpConnections();
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;

  // Waits for the next request of a new or kept-alive connection; `received` are bytes of it that
  // were already read.
  void add(FileDescriptor socket, std::string received = {}, int num_served = 0);
  // Shuts down the sending side, then closes the socket when the client has closed its side or
  // after a timeout. Closing it immediately could discard a response that is still in transit.
  void close_gracefully(FileDescriptor socket);
  // Closes all connections.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    FileDescriptor socket;
    std::string received;
    int num_served = 0;
    bool is_closing = false;
    size_t num_read = 0;
    Clock::time_point deadline;
  };

  void enqueue(Connection connection);
  void wake_up();
  void run();
  std::vector<Connection> take_added(bool& stopping);
  void poll_events(std::chrono::milliseconds timeout);
  // These return false if the connection is to be removed.
  bool update(Connection& connection, bool has_events);
  bool receive(Connection& connection);
  bool read_some(Connection& connection, bool& at_end);

  ConnectionLimits limits_;
  std::function<void(ReceivedRequest)> on_request_;
  FileDescriptor wakeup_;  // an eventfd
  Mutex mutex_;
  std::vector<Connection> added_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;

  // Used only by the polling thread.
  std::list<Connection> connections_;  // the first has waited longest
  std::vector<short> events_;          // of connections_, in their order, from poll()
  std::jthread thread_;                // last: it uses all of the above
};

}  // namespace lockstep::dashboard
