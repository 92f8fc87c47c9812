#include "distributed/backends/own_address.h"

#include <fmt/format.h>

#include "core/system/local_address.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

constexpr const char* kAddressOfMaster = "address of rank 0's host";
constexpr const char* kLookedUp = "ranks that looked it up";
constexpr const char* kAllLookedUp = "all have looked it up";

}  // namespace

std::string own_address(c10d::Store& store, const AddressQuery& question) {
  const bool is_hidden = is_name_for_loopback(question.master);
  const auto address = numeric_address_of(question.master);
  if (address && !is_hidden) store.set(kAddressOfMaster, *address);
  if (store.add(kLookedUp, 1) == question.world_size) store.set(kAllLookedUp, "yes");
  if (is_hidden) {
    store.wait({kAllLookedUp}, question.timeout);
    // Where no rank knows another address, all of them are on this host.
    if (store.check({kAddressOfMaster})) return store.get_to_str(kAddressOfMaster);
  }
  if (const auto own = local_address_towards(question.master)) return *own;
  throw environment_error(
      fmt::format("cannot resolve or reach the rendezvous host '{}'", question.master));
}

}  // namespace lockstep::distributed
