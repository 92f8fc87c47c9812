// The lock by which one agent at a time serves a job on a node.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "core/system/file_descriptor.h"

namespace lockstep::tracking {

// Acquires the lock; closing the descriptor releases it. Waits for as long as the parent lives
// (`parent_fd` reaches end of file when it is gone; -1: does not wait). A restarted run may find
// its previous agent still running: that agent notices that another one is waiting, and hands over.
// It may be about to when the parent is lost, so this waits for up to 30 s more then. nullopt: another
// agent holds the lock, and the parent is gone. Throws Environment.
std::optional<FileDescriptor> acquire_agent_lock(const std::filesystem::path& run_dir,
                                                 int node_rank, int parent_fd);

// Whether an agent is waiting for the lock.
bool is_agent_waiting(const std::filesystem::path& run_dir, int node_rank);

// Waits until no agent of the node serves the job. Returns false on timeout.
bool wait_for_agent(const std::filesystem::path& run_dir, int node_rank,
                    std::chrono::milliseconds timeout);

}  // namespace lockstep::tracking
