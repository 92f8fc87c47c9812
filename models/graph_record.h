// What a compiled package reports about its graphs while they run.
#pragma once

namespace lockstep::models {

// The name of an at::RecordFunction around each graph of a training step. Its only argument is a
// double: the floating-point operations of the graph. Not recorded if they are unknown.
inline constexpr const char* kGraphRecord = "lockstep::compiled_graph";

}  // namespace lockstep::models
