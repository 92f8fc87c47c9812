// cpp-httplib's server, with bounds on what any client can cost: connections are received apart
// (dashboard/server/http_connections.h), a thread works for a connection only from a whole request to its answer,
// and the answer has to be taken at some pace.
#pragma once

// As the library was compiled.
#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_OPENSSL_SUPPORT
#endif
#include <httplib.h>

#include <atomic>
#include <memory>

#include "dashboard/server/http_connections.h"

namespace lockstep::dashboard {

// The library calls it from the thread that listens and from the workers.
class BoundedServer : public httplib::Server {
 public:
  // `num_workers`: requests that are answered at the same time.
  BoundedServer(ReceptionLimits limits, size_t num_workers);
  ~BoundedServer() override;

  // For `new_task_queue`: begins to work, until the library ends it.
  httplib::TaskQueue* new_tasks();

 private:
  class Tasks;

  bool process_and_close_socket(socket_t socket) override;
  void take(HttpArrival arrival);
  void serve(HttpArrival arrival);
  void end();

  size_t num_workers_;
  std::atomic<size_t> num_taken_ = 0;  // answered now, or next
  std::unique_ptr<httplib::ThreadPool> workers_;
  HttpConnections reception_;  // last: it uses all of the above
};

}  // namespace lockstep::dashboard
