// Which agent of a node has a job: one at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

// Waits for the turn, for as long as the starter lives (`starter_fd`: end of file there when it is
// gone; -1: does not wait). A run that is started again may find the agent of before at work; it
// sees that another one waits, and makes way. nullopt: there is another agent, and the starter is
// gone. The turn ends with the descriptor. Throws Environment.
std::optional<FileDescriptor> take_agent_turn(const std::filesystem::path& run_dir, int node_rank,
                                              int starter_fd);

// Whether one waits for its turn.
bool is_agent_waiting(const std::filesystem::path& run_dir, int node_rank);

// Waits until no agent of the node works on the job. Returns whether that came within `timeout`.
bool wait_for_agent(const std::filesystem::path& run_dir, int node_rank,
                    std::chrono::milliseconds timeout);

}  // namespace lockstep::tracking
