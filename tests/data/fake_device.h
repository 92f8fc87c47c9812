// A device for tests without a GPU: its memory is the host's, and what is queued on its streams
// happens when the test says so, as late as a GPU might do it. Registered with LibTorch as
// PrivateUse1 by whoever links fake_device.cpp, so it has a program of its own.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <functional>

namespace lockstep::fake_device {

inline const at::Device kDevice{at::kPrivateUse1, 0};

// What has happened since reset().
struct Counts {
  size_t copies = 0;         // queued, from the host to the device
  size_t pageable = 0;       // of those: from memory that is not page-locked, for which one waits
  size_t on_own_stream = 0;  // of those: not on the stream that the program works on
  size_t page_locked = 0;    // blocks of page-locked memory that were made
  size_t waits_of_host = 0;  // for an event
};
Counts counts();

// Waits for nobody: forgets the counts. Requires empty queues.
void reset();

// Queues `work` on the current stream, as a kernel.
void enqueue(std::function<void()> work);

enum class Late { Copies, Work };
// Runs what is queued, at most so many steps: what is to be late only where nothing else can run.
void run(size_t steps, Late late);
// Runs all.
void drain();

}  // namespace lockstep::fake_device
