// Address at which ranks on other hosts reach this rank.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace lockstep::distributed {

struct AddressQuery {
  std::string master;  // the host of rank 0, as configured on this rank
  int world_size = 1;
  std::chrono::milliseconds timeout{};
};

// Collective if the ranks are on several hosts. Returns the numeric address of the interface that
// reaches rank 0's host; on that host itself, the address by which other hosts know it, because its
// /etc/hosts may map its name to 127.0.1.1. Throws Environment if the name cannot be resolved.
std::string own_address(c10d::Store& store, const AddressQuery& query);

}  // namespace lockstep::distributed
