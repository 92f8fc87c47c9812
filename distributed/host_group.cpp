#include <fmt/format.h>

#include <utility>

#include "distributed/backends.h"
#include "distributed/shm/meeting.h"
#include "distributed/shm_backend.h"

namespace lockstep {
namespace {

class StoreBoard final : public shm::Board {
 public:
  StoreBoard(c10::intrusive_ptr<c10d::Store> store, std::chrono::milliseconds timeout)
      : store_(std::move(store)), timeout_(timeout) {}

  void put(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::string get(const std::string& key) override {
    store_->wait({key}, timeout_);
    return store_->get_to_str(key);
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

HostGroup make_shm_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                           std::chrono::milliseconds timeout) {
  StoreBoard board(store, timeout);
  auto meeting = shm::meet(board, {.rank = rank, .num_ranks = world_size});
  if (!meeting.group) return {nullptr, meeting.reason};
  return {c10::make_intrusive<ShmBackend>(std::move(meeting.group), timeout), ""};
}

}  // namespace lockstep
