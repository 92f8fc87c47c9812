// How long threads of OpenMP spin for their next work before they park.
#pragma once

namespace lockstep::launch {

// Unless OMP_WAIT_POLICY or this variable is set. libgomp's default is 300,000 tries, milliseconds: on
// a busy core, such a thread keeps the core from the thread that it waits for, and small steps take
// tens of times as long. This value is enough for the time between two operators of a step.
constexpr const char* kSpinVariable = "GOMP_SPINCOUNT";
constexpr const char* kSpinCount = "5000";

}  // namespace lockstep::launch
