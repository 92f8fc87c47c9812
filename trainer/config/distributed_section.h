// The section `distributed:` of a run file.
#pragma once

#include <chrono>

#include "core/config/period.h"
#include "lockstep/data_parallel.h"
#include "lockstep/world.h"
#include "trainer/config/slow_ranks.h"

namespace lockstep::trainer {

struct DistributedSection {
  DeviceChoice device = DeviceChoice::Auto;
  BackendChoice backend = BackendChoice::Auto;
  DataParallelConfig data_parallel;  // its keys are in `distributed:` itself
  Duration timeout{std::chrono::minutes(30)};
  Duration step_timeout{std::chrono::minutes(10)};
  Duration hang_warning{std::chrono::seconds(3)};
  SlowRanksConfig slow_ranks;
};

template <class V>
void fields(V& v, DistributedSection& c) {
  v("device", c.device,
    "device to train on; auto: a GPU if one is visible (see CUDA_VISIBLE_DEVICES), else the CPU");
  v("backend", c.backend,
    "communication backend; auto: nccl for GPUs; for CPUs shm (shared memory) if all ranks are on "
    "one host, else gloo; hierarchical: shared memory within a host and gloo between hosts, with "
    "bits that depend on which ranks share a host");
  fields(v, c.data_parallel);
  v("timeout", c.timeout,
    "how long a rank waits for the others at startup, in evaluations and for checkpoints");
  v("step_timeout", c.step_timeout, "how long a rank waits for the others in a training step");
  v("hang_warning", c.hang_warning,
    "how long ranks may wait before `lockstep launch` reports a hang, with the rank they wait for "
    "and its stacks; at least three times the longest step so far; ten times as long in the "
    "first step and outside of steps");
  v("slow_ranks", c.slow_ranks, "what happens to a rank that is slower than the others");
}

}  // namespace lockstep::trainer
