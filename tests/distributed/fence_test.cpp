// Classification of LibTorch's exceptions as communication failures. All exceptions are real.
#include "distributed/fence.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "distributed/backends/backends.h"
#include "tests/distributed/run_ranks.h"

namespace lockstep::distributed {
namespace {

using namespace std::chrono_literals;

// "lost peer" for a communication failure, "other" for other exceptions, "none" without one.
template <class Body>
std::string failure_of(Body&& body) {
  try {
    body();
  } catch (const std::exception& error) {
    UNSCOPED_INFO(typeid(error).name() << ": " << error.what());
    return is_communication_failure(error) ? "lost peer" : "other";
  }
  return "none";
}

c10::intrusive_ptr<c10d::TCPStore> tcp_store(bool is_server, uint16_t port = 0) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = 1s;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

// The failure of rank 0 in `body(backend)` when rank 1 exits without a call.
template <class Body>
std::string failure_of_gloo(const Body& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::string failure;
  const auto errors = run_threads(2, [&](int rank) {
    auto backend = make_gloo_backend(store, rank, 2, 1s, "127.0.0.1");
    if (rank == 0) failure = failure_of([&] { body(*backend); });
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return failure;
}

}  // namespace

TEST_CASE("fence: waiting for a key that no rank sets is a lost peer, in every store") {
  const RendezvousDirectory directory;
  const auto file = make_file_store(directory.store(), 2);
  const auto hash = c10::make_intrusive<c10d::HashStore>();
  const auto tcp = tcp_store(true);
  for (const c10::intrusive_ptr<c10d::Store>& store :
       std::vector<c10::intrusive_ptr<c10d::Store>>{file, hash, tcp}) {
    store->set("other", "1");
    store->setTimeout(50ms);
    CHECK(failure_of([&] { store->get("key"); }) == "lost peer");
    CHECK(failure_of([&] { store->wait({"key"}); }) == "lost peer");
    CHECK(failure_of([&] { store->wait({"key"}, 50ms); }) == "lost peer");
    c10d::PrefixStore prefixed("attempt", store);
    CHECK(failure_of([&] { prefixed.get("key"); }) == "lost peer");
    CHECK(failure_of([&] { store->clone()->wait({"key"}, 50ms); }) == "lost peer");
  }
}

TEST_CASE("fence: a store whose server has exited is a lost peer") {
  auto server = tcp_store(true);
  const auto port = server->getPort();
  const auto client = tcp_store(false, port);
  server.reset();
  CHECK(failure_of([&] { client->get("key"); }) == "lost peer");
  CHECK(failure_of([&] { client->set("key", std::vector<uint8_t>{1}); }) == "lost peer");
}

TEST_CASE("fence: a rank that Gloo loses is a lost peer") {
  CHECK(failure_of_gloo([](c10d::Backend& backend) {
          std::vector<at::Tensor> tensors = {at::ones({1000})};
          backend.allreduce(tensors, {})->wait();
        }) == "lost peer");
  CHECK(failure_of_gloo([](c10d::Backend& backend) {
          std::vector<at::Tensor> tensors = {at::ones({1000})};
          backend.allreduce(tensors, {})->getFuture()->waitAndThrow();
        }) == "lost peer");
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(50ms);
  CHECK(failure_of([&] { make_gloo_backend(store, 0, 2, 50ms, "127.0.0.1"); }) == "lost peer");
}

TEST_CASE("fence: an error in a model is not a lost peer") {
  const auto two = at::ones({2});
  CHECK(failure_of([&] { two + at::ones({3}); }) == "other");
  CHECK(failure_of([&] { at::empty({int64_t{1} << 50}); }) == "other");
  CHECK(failure_of([&] { two.select(0, 5); }) == "other");
  CHECK(failure_of([&] { two.requires_grad_().backward(); }) == "other");
  CHECK(failure_of([] { throw std::runtime_error("Application timeout"); }) == "other");
  // The text does not matter: a model may use the words of a store.
  CHECK(failure_of([] { TORCH_CHECK(false, "Wait timeout"); }) == "other");
}

}  // namespace lockstep::distributed
