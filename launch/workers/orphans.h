// Processes whose parents have ended: process 1 of a container gets them, and must reap them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace lockstep::launch {

// Reaps the children of this process that have exited, except `own`. No effect unless it is process 1.
// Thread: the main one.
void reap_orphans(const std::vector<pid_t>& own);

}  // namespace lockstep::launch
