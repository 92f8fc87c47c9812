// Collectives on JSON values, sent as MessagePack over the control group: for configuration, states
// and other data whose size differs between ranks. Preserves binary strings and non-finite numbers.
// At most 1 GiB per rank. All are collective; errors as in distributed/collectives.h. With one rank
// they return immediately.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/world.h"

namespace lockstep::distributed {

// Returns the values of all ranks, in rank order, on every rank.
std::vector<nlohmann::json> all_gather_object(World& world, const nlohmann::json& value,
                                              const std::string& name);

// Returns the values of all ranks, in rank order, on `root`; empty on the others.
std::vector<nlohmann::json> gather_object(World& world, const nlohmann::json& value, int root,
                                          const std::string& name);

// Returns `root`'s value on every rank. `value` is ignored on the others.
nlohmann::json broadcast_object(World& world, const nlohmann::json& value, int root,
                                const std::string& name);

// Calls `act` on rank 0 only and returns its result on every rank. If it throws, every rank throws
// an error of the same kind.
nlohmann::json act_on_main(World& world, const std::string& name,
                           const std::function<nlohmann::json()>& act);

}  // namespace lockstep::distributed
