// A fake accelerator for tests without a GPU: uses host memory, and executes the work queued on its
// streams when the test requests it, as late as a GPU might. Linking fake_device.cpp registers it
// with LibTorch as PrivateUse1, so its tests are a separate program.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <functional>

namespace lockstep::fake_device {

inline const at::Device kDevice{at::kPrivateUse1, 0};

// Counts since reset().
struct Counts {
  size_t copies = 0;         // queued, from the host to the device
  size_t pageable = 0;       // of those: from pageable memory, which blocks the host
  size_t on_own_stream = 0;  // of those: not on the stream of the computation
  size_t page_locked = 0;    // allocated blocks of page-locked memory
  size_t waits_of_host = 0;  // for an event
};
Counts counts();

// Resets the counts without waiting. Requires empty queues.
void reset();

// Queues `work` on the current stream, as a kernel.
void enqueue(std::function<void()> work);

enum class Late { Copies, Work };
// Runs at most this many queued steps; delayed ones only if nothing else can run.
void run(size_t steps, Late late);
// Runs all queued steps.
void drain();

}  // namespace lockstep::fake_device
