// Runs a cpp-httplib server on its own thread.
#pragma once

#include <cstddef>
#include <string>
#include <thread>

namespace httplib {
class Server;
}

namespace lockstep::tracking {

class HttpServerThread {
 public:
  // `server` must be bound, have its handlers, and outlive this object. Serves requests on
  // `num_threads` threads. Returns once the server listens. Throws Environment, whose message names
  // the server as `what`, if it does not start.
  HttpServerThread(httplib::Server& server, size_t num_threads, const std::string& what);
  // Stops the server and waits for requests in progress.
  ~HttpServerThread();
  HttpServerThread(const HttpServerThread&) = delete;
  HttpServerThread& operator=(const HttpServerThread&) = delete;

 private:
  httplib::Server& server_;
  std::thread thread_;
};

// For set_socket_options(): the library's default, SO_REUSEPORT, would let two processes share a
// port.
void reuse_address_only(int socket);

// Whether the Authorization header of a request is "Bearer TOKEN". The comparison takes constant
// time. False for an empty token.
bool has_bearer_token(const std::string& authorization, const std::string& token);

}  // namespace lockstep::tracking
