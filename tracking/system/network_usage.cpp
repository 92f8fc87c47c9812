#include "tracking/system/network_usage.h"

#include "core/number_text.h"

namespace lockstep::tracking {
namespace {

struct NetworkCounters {
  std::map<std::string, uint64_t> received, transmitted;  // bytes by device
};

// "  eth0: received packets errs drop fifo frame compressed multicast transmitted ..."
void add_network_device(std::string_view line, const std::string& devices,
                        NetworkCounters& hardware, NetworkCounters& all) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return;  // a header line
  const std::string name(proc::nth_word(line.substr(0, colon), 0));
  const auto counts = line.substr(colon + 1);
  const auto received = parse_number<uint64_t>(proc::nth_word(counts, 0));
  const auto transmitted = parse_number<uint64_t>(proc::nth_word(counts, 8));
  if (name == "lo" || !received || !transmitted) return;
  all.received[name] = *received;
  all.transmitted[name] = *transmitted;
  if (!proc::file_exists(devices + name + "/device")) return;
  hardware.received[name] = *received;
  hardware.transmitted[name] = *transmitted;
}

}  // namespace

NetworkUsage::NetworkUsage(const std::filesystem::path& root_of_proc,
                           const std::filesystem::path& root_of_sys)
    : net_dev_(root_of_proc / "net" / "dev"),
      devices_((root_of_sys / "class" / "net").string() + "/") {}

void NetworkUsage::sample(SampleTime now, SystemValues& values) {
  auto text = reader_.read(net_dev_);
  if (!text) return;
  NetworkCounters hardware, all;
  std::string_view line;
  while (proc::next_line(*text, line)) add_network_device(line, devices_, hardware, all);
  auto& counted = hardware.received.empty() ? all : hardware;
  add_if_known(values, "system/network.receive_bytes_per_s",
               received_.per_second(std::move(counted.received), now));
  add_if_known(values, "system/network.transmit_bytes_per_s",
               transmitted_.per_second(std::move(counted.transmitted), now));
}

}  // namespace lockstep::tracking
