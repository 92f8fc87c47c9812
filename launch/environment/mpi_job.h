// What the processes that one mpirun started have in common, so that they agree on a port.
#pragma once

#include <optional>
#include <string>

namespace lockstep::launch {

// OpenMPI: the name of the job, the same on every host. nullopt when it told none.
std::optional<std::string> openmpi_job();

// MPICH and those with its process manager (Hydra): the process on this host that started the
// ranks, so good for ranks of one host only.
std::string hydra_job();

}  // namespace lockstep::launch
