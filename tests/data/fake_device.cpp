#include "tests/data/fake_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::fake_device {
namespace {

constexpr size_t kWork = 0, kCopies = 1;  // streams

// Returns whether it was done; otherwise it is retried.
using Step = std::function<bool()>;

struct Queue {
  std::deque<Step> steps;
  size_t queued = 0, done = 0;
};

// An event: this many steps of a stream must be done.
struct Mark {
  size_t stream = 0, steps = 0;
};

struct Block {
  bool page_locked = false;
  bool has_users = false;  // set by record_stream()
  size_t bytes = 0;
};

struct State {
  std::mutex mutex;  // guards blocks, freed and counts: workers allocate
  std::map<void*, Block> blocks;
  std::vector<void*> freed;  // released when nothing is queued anymore
  Counts counts;
  // Used by the test's thread only.
  std::array<Queue, 2> queues;
  size_t current = kWork;
};

State& state() {
  static auto& all = *new State;
  return all;
}

void add(size_t stream, Step step) {
  auto& queue = state().queues[stream];
  queue.steps.push_back(std::move(step));
  ++queue.queued;
}

bool run_one(size_t stream) {
  auto& queue = state().queues[stream];
  if (queue.steps.empty() || !queue.steps.front()()) return false;
  queue.steps.pop_front();
  ++queue.done;
  return true;
}

bool is_done(const Mark& mark) { return state().queues[mark.stream].done >= mark.steps; }

void free_block(void* memory) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  const auto block = all.blocks.at(memory);
  // Memory without recorded users is reused immediately.
  if (!block.page_locked && !block.has_users) std::memset(memory, 0xDD, block.bytes);
  all.blocks.erase(memory);
  all.freed.push_back(memory);
}

class FakeAllocator final : public c10::Allocator {
 public:
  explicit FakeAllocator(bool page_locked) : page_locked_(page_locked) {}
  c10::DataPtr allocate(size_t bytes) override {
    auto* memory = std::malloc(std::max<size_t>(bytes, 1));
    auto& all = state();
    const std::lock_guard lock(all.mutex);
    all.blocks[memory] = {.page_locked = page_locked_, .bytes = bytes};
    all.counts.page_locked += page_locked_;
    return {memory, memory, free_block, page_locked_ ? at::Device(at::kCPU) : kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_block; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  bool page_locked_;
};

FakeAllocator* memory_of_device() {
  static FakeAllocator allocator(false);
  return &allocator;
}

FakeAllocator* memory_of_host() {
  static FakeAllocator allocator(true);
  return &allocator;
}

bool is_page_locked(const void* memory) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.blocks.find(const_cast<void*>(memory));
  return found != all.blocks.end() && found->second.page_locked;
}

struct FakeHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  at::DeviceIndex deviceCount() const override { return 1; }
  at::Allocator* getPinnedMemoryAllocator() const override { return memory_of_host(); }
  bool isPinnedPtr(const void* memory) const override { return is_page_locked(memory); }
};

struct FakeGuard final : c10::impl::DeviceGuardImplInterface {
  static constexpr at::DeviceType static_type = at::kPrivateUse1;
  static c10::Stream stream(size_t number) {
    return c10::Stream(c10::Stream::UNSAFE, kDevice, static_cast<c10::StreamId>(number));
  }
  at::DeviceType type() const override { return static_type; }
  at::Device exchangeDevice(at::Device) const override { return kDevice; }
  at::Device getDevice() const override { return kDevice; }
  void setDevice(at::Device) const override {}
  void uncheckedSetDevice(at::Device) const noexcept override {}
  at::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(at::Device) const override { return stream(state().current); }
  c10::Stream getDefaultStream(at::Device) const override { return stream(kWork); }
  c10::Stream getStreamFromGlobalPool(at::Device, bool) const override { return stream(kCopies); }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream(std::exchange(state().current, static_cast<size_t>(to.id())));
  }
  void record(void** event, const c10::Stream& on, at::DeviceIndex, c10::EventFlag) const override {
    const auto number = static_cast<size_t>(on.id());
    delete static_cast<Mark*>(*event);
    *event = new Mark{number, state().queues[number].queued};
  }
  void block(void* event, const c10::Stream& on) const override {
    add(static_cast<size_t>(on.id()),
        [mark = *static_cast<Mark*>(event)] { return is_done(mark); });
  }
  bool queryEvent(void* event) const override { return is_done(*static_cast<Mark*>(event)); }
  void synchronizeEvent(void* event) const override {
    ++state().counts.waits_of_host;
    const auto mark = *static_cast<Mark*>(event);
    while (!is_done(mark)) TORCH_CHECK(run_one(mark.stream), "the host would wait for ever");
  }
  void destroyEvent(void* event, at::DeviceIndex) const noexcept override {
    delete static_cast<Mark*>(event);
  }
};

at::Tensor make_empty(at::IntArrayRef size, std::optional<at::ScalarType> type) {
  return at::detail::empty_generic(size, memory_of_device(),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), std::nullopt);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device>,
                         std::optional<bool>) {
  return make_empty(size, type);  // contiguous: the tests copy no others
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat>) {
  return make_empty(size, type);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  auto& all = state();
  const auto* source = from.const_data_ptr();
  auto* target = to.mutable_data_ptr();
  const auto bytes = from.nbytes();
  {
    const std::lock_guard lock(all.mutex);
    ++all.counts.copies;
    all.counts.pageable += !non_blocking;
    all.counts.on_own_stream += all.current == kCopies;
  }
  if (non_blocking)
    add(all.current, [=] { return std::memcpy(target, source, bytes), true; });
  else
    std::memcpy(target, source, bytes);
  return to;
}

void record_stream(at::Tensor& tensor, c10::Stream) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  all.blocks.at(tensor.mutable_data_ptr()).has_users = true;
}

bool register_all() {
  static FakeHooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::register_privateuse1_backend("fake");
  return true;
}

const bool registered = register_all();
C10_REGISTER_GUARD_IMPL(PrivateUse1, FakeGuard);

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("record_stream", record_stream);
}

}  // namespace

Counts counts() {
  const std::lock_guard lock(state().mutex);
  return state().counts;
}

void reset() {
  const std::lock_guard lock(state().mutex);
  state().counts = {};
}

void enqueue(std::function<void()> work) {
  add(state().current, [work = std::move(work)] { return work(), true; });
}

void run(size_t steps, Late late) {
  const auto first = late == Late::Copies ? kWork : kCopies;
  for (size_t i = 0; i < steps; ++i)
    if (!run_one(first) && !run_one(1 - first)) return;
}

void drain() {
  run(SIZE_MAX, Late::Copies);
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  for (auto* memory : all.freed) std::free(memory);
  all.freed.clear();
}

}  // namespace lockstep::fake_device
