// A server of cpp-httplib on a thread of its own, as all of tracking runs one.
#pragma once

#include <cstddef>
#include <string>
#include <thread>

namespace httplib {
class Server;
}

namespace lockstep::tracking {

class HttpServing {
 public:
  // `server` is bound and has its handlers; it outlives this object. Requests are answered on
  // `num_threads` threads. Returns once it listens. Throws Environment, which names `what`, when it
  // does not start.
  HttpServing(httplib::Server& server, size_t num_threads, const std::string& what);
  // Stops it, and waits for the requests under way.
  ~HttpServing();
  HttpServing(const HttpServing&) = delete;
  HttpServing& operator=(const HttpServing&) = delete;

 private:
  httplib::Server& server_;
  std::thread thread_;
};

// For set_socket_options(): the library's own choice, SO_REUSEPORT, would let two processes have
// the same port by halves.
void reuse_address_only(int socket);

// Whether the header `authorization` of a request is "Bearer TOKEN", in a time that tells nothing
// of the token. False for an empty token.
bool brings_token(const std::string& authorization, const std::string& token);

}  // namespace lockstep::tracking
