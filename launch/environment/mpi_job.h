// A name that all processes of one mpirun share, from which they derive a port.
#pragma once

#include <optional>
#include <string>

namespace lockstep::launch {

// OpenMPI: the name of the job, the same on every host. nullopt if the environment has none.
std::optional<std::string> openmpi_job();

// MPICH and other MPIs with its process manager Hydra: the process on this host that started the
// ranks. Valid only if all ranks are on one host.
std::string hydra_job();

}  // namespace lockstep::launch
