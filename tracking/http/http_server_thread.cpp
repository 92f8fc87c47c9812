#include "tracking/http/http_server_thread.h"

// Must match the build of the library.
#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_OPENSSL_SUPPORT
#endif
#include <httplib.h>
#include <openssl/crypto.h>
#include <sys/socket.h>

#include <chrono>
#include <future>

#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr auto kServerStartTimeout = std::chrono::seconds(10);

}  // namespace

// The server's stop() takes effect only after it has created its task queue.
HttpServerThread::HttpServerThread(httplib::Server& server, size_t num_threads,
                                   const std::string& what)
    : server_(server) {
  std::promise<void> started;
  auto start = started.get_future();
  server.new_task_queue = [&started, num_threads] {
    auto* tasks = new httplib::ThreadPool(num_threads);
    started.set_value();
    return tasks;
  };
  thread_ = std::thread([&server] { server.listen_after_bind(); });
  if (start.wait_for(kServerStartTimeout) == std::future_status::ready) return;
  server.stop();
  thread_.join();
  throw environment_error(what + " did not start");
}

HttpServerThread::~HttpServerThread() {
  server_.stop();
  thread_.join();
}

void reuse_address_only(int socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

bool has_bearer_token(const std::string& authorization, const std::string& token) {
  const auto expected = "Bearer " + token;
  return !token.empty() && authorization.size() == expected.size() &&
         CRYPTO_memcmp(authorization.data(), expected.data(), expected.size()) == 0;
}

}  // namespace lockstep::tracking
