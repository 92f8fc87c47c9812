// Copies batches to an accelerator on a separate stream, concurrently with queued work.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>
#include <vector>

#include "lockstep/batch.h"

namespace lockstep::data {

// One batch is in flight at a time. Uses LibTorch's device-neutral interface, so that this does not
// link CUDA.
//
// Thread: one.
class DeviceTransfer {
 public:
  // Requires the device to be usable (a World on it exists).
  explicit DeviceTransfer(at::Device device);

  bool has_batch() const { return in_flight_.has_value(); }

  // Starts the copy. The batch's memory, page-locked so that the copy is asynchronous, is held
  // until the copy has finished; waits for the oldest of three unfinished copies. Requires
  // !has_batch().
  void start(Batch batch);

  // The batch on the device; work queued on the current stream after this call waits for the copy.
  // Requires has_batch().
  Batch finish();

 private:
  struct Copy {
    Batch source, target;
    c10::Event done;
  };
  const at::Device device_;
  const c10::Stream stream_;
  std::optional<Copy> in_flight_;
  std::vector<Copy> finished_;  // their sources may still be read by the device
};

}  // namespace lockstep::data
