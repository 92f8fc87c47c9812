// cpp-httplib's server with limits on the resources of each client: idle connections are polled by
// one thread (dashboard/server/http_connections.h), a worker thread handles a connection only from
// its complete request to the response, and a client must read the response at a minimum rate.
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

// Thread: called by the library from the listening thread and from the workers.
class BoundedServer : public httplib::Server {
 public:
  // `num_workers`: requests that are handled concurrently.
  BoundedServer(ConnectionLimits limits, size_t num_workers);
  ~BoundedServer() override;

  // For `new_task_queue`: starts the workers. The library owns the queue and shuts it down.
  httplib::TaskQueue* make_task_queue();

 private:
  class InlineTaskQueue;

  bool process_and_close_socket(socket_t socket) override;
  void enqueue(ReceivedRequest request);
  void handle(ReceivedRequest request);
  void shut_down();

  size_t num_workers_;
  std::atomic<size_t> num_pending_ = 0;  // queued or in progress
  std::unique_ptr<httplib::ThreadPool> workers_;
  HttpConnections connections_;  // last: its thread uses all of the above
};

}  // namespace lockstep::dashboard
