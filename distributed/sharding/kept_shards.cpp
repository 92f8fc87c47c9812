#include "distributed/sharding/kept_shards.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/system/mutex.h"
#include "distributed/backends/process_groups.h"
#include "distributed/fence.h"
#include "distributed/sharding/divided_tensor.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

// Address space; memory is reserved as it is used. 64 bytes for an element of a slice: Adam needs 8
// with float32, and as much is free for tensors that are replaced.
constexpr size_t kBytesPerElement = 64, kMinAreaBytes = 64 << 20;
constexpr size_t kDescriptionBytes = 64 << 20;
constexpr size_t kFrontBytes = shm::kFirstPartBytes, kAlignment = 64;
constexpr int64_t kNoVersion = 0;

// After the token of shm::make_sparse_parts(), which is in the first line.
struct alignas(kAlignment) PartFront {
  char token[kAlignment];
  std::atomic<int64_t> saved_version;  // + 1, so that 0 is none
};

constexpr size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

at::Tensor elements_at(std::byte* data, int64_t numel, at::ScalarType type) {
  return at::from_blob(data, {numel}, type);
}

}  // namespace

// A part of each rank: the front, the live area and the saved area. An area begins with the size of
// its description and the description.
class KeptShards::Memory {
 public:
  struct Place {
    size_t offset = 0;  // in the data of an area
    const Item* item = nullptr;
  };

  Memory(std::vector<shm::Segment> parts, int rank, size_t area_bytes)
      : parts_(std::move(parts)), rank_(static_cast<size_t>(rank)), area_bytes_(area_bytes) {}

  static size_t part_bytes(size_t area_bytes) {
    return kFrontBytes + 2 * (kDescriptionBytes + area_bytes);
  }

  size_t num_ranks() const { return parts_.size(); }
  std::atomic<int64_t>& saved_version(size_t rank) const {
    return reinterpret_cast<PartFront*>(parts_[rank].data())->saved_version;
  }
  std::atomic<int64_t>& saved_version() const { return saved_version(rank_); }

  std::byte* live_data() const { return data_of(rank_, /*is_saved=*/false); }
  bool is_live(const void* data) const {
    const auto* const byte = static_cast<const std::byte*>(data);
    return byte >= live_data() && byte < live_data() + area_bytes_;
  }

  // Memory in this rank's live area, until it is freed.
  std::byte* take(size_t bytes) {
    const MutexLock lock(mutex_);
    if (const auto free = free_.find(bytes); free != free_.end()) {
      auto* const data = live_data() + free->second;
      free_.erase(free);
      return data;
    }
    auto* const data = live_data() + used_;
    reserve(data, bytes, live_data());
    used_ += bytes;
    return data;
  }
  void free(std::byte* data, size_t bytes) {
    const MutexLock lock(mutex_);
    free_.emplace(bytes, data - live_data());
  }

  // This rank's saved area, of which `bytes` will be used.
  std::byte* reserve_saved(size_t bytes) {
    auto* const data = data_of(rank_, /*is_saved=*/true);
    reserve(data, bytes, data);
    return data;
  }

  void describe(bool is_saved, const std::vector<Place>& places) {
    auto list = nlohmann::json::array();
    for (const auto& [offset, item] : places)
      list.push_back({item->list, item->name, item->parameter, item->begin,
                      static_cast<int>(item->tensor.scalar_type()), item->tensor.numel(), offset});
    const auto text = list.dump();
    auto* const to = data_of(rank_, is_saved) - kDescriptionBytes;
    const uint64_t size = text.size();
    if (sizeof size + size > kDescriptionBytes)
      throw config_error(
          fmt::format("--on-rank-loss continue: the names of the optimizer's {} tensors need {} "
                      "bytes, more than {}; use distributed.shard: none",
                      places.size(), size, kDescriptionBytes - sizeof size));
    own().reserve(static_cast<size_t>(to - own().data()), sizeof size + size);
    std::memcpy(to + sizeof size, text.data(), size);
    std::memcpy(to, &size, sizeof size);
  }

  void read(size_t rank, bool is_saved, std::vector<Item>& items) const {
    auto* const data = data_of(rank, is_saved);
    const auto* const description = data - kDescriptionBytes;
    uint64_t size = 0;
    std::memcpy(&size, description, sizeof size);
    if (size == 0) return;
    const std::string_view text(reinterpret_cast<const char*>(description + sizeof size), size);
    for (const auto& item : nlohmann::json::parse(text))
      items.push_back({.list = item[0],
                       .name = item[1],
                       .parameter = item[2],
                       .begin = item[3],
                       .tensor = elements_at(data + item[6].get<size_t>(), item[5].get<int64_t>(),
                                             static_cast<at::ScalarType>(item[4].get<int>()))});
  }

 private:
  const shm::Segment& own() const { return parts_[rank_]; }

  std::byte* data_of(size_t rank, bool is_saved) const {
    const auto area = kDescriptionBytes + area_bytes_;
    return parts_[rank].data() + kFrontBytes + (is_saved ? area : 0) + kDescriptionBytes;
  }

  void reserve(const std::byte* data, size_t bytes, const std::byte* area) const {
    if (static_cast<size_t>(data - area) + bytes > area_bytes_) throw_too_large();
    own().reserve(static_cast<size_t>(data - own().data()), bytes);
  }

  [[noreturn]] static void throw_too_large() {
    throw config_error(
        fmt::format("--on-rank-loss continue: the optimizer has more than {} bytes of state for "
                    "each element of a parameter; use distributed.shard: none",
                    kBytesPerElement));
  }

  std::vector<shm::Segment> parts_;
  size_t rank_, area_bytes_;
  Mutex mutex_;
  size_t used_ GUARDED_BY(mutex_) = 0;
  std::multimap<size_t, size_t> free_ GUARDED_BY(mutex_);  // offsets by bytes
};

std::shared_ptr<KeptShards> KeptShards::create(World& ranks, int64_t numel) {
  const auto& shared = ranks.groups().shared;
  check(shared != nullptr, "ranks do not share memory");
  const auto area = kMinAreaBytes + static_cast<size_t>(numel) * kBytesPerElement;
  const auto bytes = Memory::part_bytes(area);
  std::vector<shm::Segment> parts;
  fenced(ranks, "shared memory", [&] {
    shared->with_group([&](shm::Group& group, shm::Clock::time_point deadline) {
      parts = shm::make_sparse_parts(group, bytes, deadline);
    });
  });
  if (parts.empty())
    throw environment_error(fmt::format(
        "--on-rank-loss continue: the ranks cannot map {} bytes of shared memory", bytes));
  return std::shared_ptr<KeptShards>(
      new KeptShards(std::make_shared<Memory>(std::move(parts), ranks.rank(), area)));
}

KeptShards::~KeptShards() = default;

bool KeptShards::holds(const NamedTensors& state) const {
  if (state.size() != held_.size()) return false;
  for (size_t i = 0; i < state.size(); ++i)
    if (!state[i].second.is_same(held_[i].tensor) ||
        (state[i].second.numel() > 0 && !memory_->is_live(state[i].second.const_data_ptr())))
      return false;
  return true;
}

// Moves the whole storage of a tensor, with that of its views.
void KeptShards::move(const at::Tensor& tensor) {
  struct Owner {
    std::shared_ptr<Memory> memory;
    std::byte* data;
    size_t bytes;
  };
  auto& storage = *tensor.storage().unsafeGetStorageImpl();
  if (storage.nbytes() == 0 || memory_->is_live(storage.data())) return;
  const auto bytes = aligned(storage.nbytes());
  auto owner = std::make_unique<Owner>(Owner{memory_, memory_->take(bytes), bytes});
  auto* const data = owner->data;
  std::memcpy(data, storage.data(), storage.nbytes());
  const auto release = [](void* context) {
    const std::unique_ptr<Owner> freed(static_cast<Owner*>(context));
    freed->memory->free(freed->data, freed->bytes);
  };
  storage.set_data_ptr_noswap({data, owner.release(), release, at::kCPU});
}

void KeptShards::hold(std::vector<Item> state) {
  std::vector<Memory::Place> places;
  for (const auto& item : state) {
    move(item.tensor);
    const auto* const data = static_cast<const std::byte*>(item.tensor.const_data_ptr());
    const bool is_empty = item.tensor.numel() == 0;
    places.push_back({is_empty ? 0 : static_cast<size_t>(data - memory_->live_data()), &item});
  }
  memory_->describe(/*is_saved=*/false, places);
  held_ = std::move(state);
  saved_.clear();
  sources_.clear();
}

void KeptShards::lay_out_copy(const std::vector<Item>& weights) {
  std::vector<Memory::Place> places;
  size_t end = 0;
  for (const auto* list : {&std::as_const(held_), &weights})
    for (const auto& item : *list) {
      places.push_back({end, &item});
      end += aligned(item.tensor.nbytes());
    }
  auto* const data = memory_->reserve_saved(end);
  memory_->describe(/*is_saved=*/true, places);
  for (const auto& [offset, item] : places) {
    saved_.push_back(elements_at(data + offset, item->tensor.numel(), item->tensor.scalar_type()));
    sources_.push_back(flat_view(item->tensor));
  }
}

void KeptShards::begin_update(const std::vector<Item>& weights) {
  const at::NoGradGuard no_grad;
  auto& version = memory_->saved_version();
  version.store(kNoVersion);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (saved_.empty()) lay_out_copy(weights);
  if (!saved_.empty()) at::_foreach_copy_(saved_, sources_);
  version.store(version_ + 1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::vector<KeptShards::Item> KeptShards::collect() const {
  std::vector<Item> items;
  for (size_t rank = 0; rank < memory_->num_ranks(); ++rank)
    memory_->read(rank, memory_->saved_version(rank).load() == version_ + 1, items);
  return items;
}

}  // namespace lockstep::distributed
