#include "tracking/http/http_serving.h"

// As the library was compiled.
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

constexpr auto kServerStartsWithin = std::chrono::seconds(10);

}  // namespace

// Its stop() is heard once it made its queue of tasks.
HttpServing::HttpServing(httplib::Server& server, size_t num_threads, const std::string& what)
    : server_(server) {
  std::promise<void> listens;
  auto heard = listens.get_future();
  server.new_task_queue = [&listens, num_threads] {
    auto* tasks = new httplib::ThreadPool(num_threads);
    listens.set_value();
    return tasks;
  };
  thread_ = std::thread([&server] { server.listen_after_bind(); });
  if (heard.wait_for(kServerStartsWithin) == std::future_status::ready) return;
  server.stop();
  thread_.join();
  throw environment_error(what + " does not start");
}

HttpServing::~HttpServing() {
  server_.stop();
  thread_.join();
}

void reuse_address_only(int socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

bool brings_token(const std::string& authorization, const std::string& token) {
  const auto wanted = "Bearer " + token;
  return !token.empty() && authorization.size() == wanted.size() &&
         CRYPTO_memcmp(authorization.data(), wanted.data(), wanted.size()) == 0;
}

}  // namespace lockstep::tracking
