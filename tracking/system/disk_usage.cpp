#include "tracking/system/disk_usage.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "core/number_text.h"

namespace lockstep::tracking {
namespace {

constexpr uint64_t kSectorBytes = 512;  // unit of /proc/diskstats for every device

struct DiskCounters {
  std::map<std::string, uint64_t> read, written;  // bytes by device
};

// major minor name reads merged sectors_read ms_reading writes merged sectors_written ...
bool add_disk(std::string_view line, const std::string& name, DiskCounters& counters) {
  const auto read = parse_number<uint64_t>(proc::nth_word(line, 5));
  const auto written = parse_number<uint64_t>(proc::nth_word(line, 9));
  if (!read || !written) return false;
  counters.read[name] = *read * kSectorBytes;
  counters.written[name] = *written * kSectorBytes;
  return true;
}

bool is_device(std::string_view line, dev_t device) {
  return parse_number<uint64_t>(proc::nth_word(line, 0)) == major(device) &&
         parse_number<uint64_t>(proc::nth_word(line, 1)) == minor(device);
}

// The counters of `device` if it is listed, else of all hardware disks: without partitions, loop
// devices and mappings, whose bytes count for another device.
DiskCounters disk_counters(std::string_view text, const std::string& blocks,
                           std::optional<dev_t> device) {
  DiskCounters all;
  std::string_view line;
  while (proc::next_line(text, line)) {
    const std::string name(proc::nth_word(line, 2));
    DiskCounters one;
    if (device && is_device(line, *device) && add_disk(line, name, one)) return one;
    if (proc::file_exists(blocks + name + "/device")) add_disk(line, name, all);
  }
  return all;
}

}  // namespace

DiskUsage::DiskUsage(const std::filesystem::path& root_of_proc,
                     const std::filesystem::path& root_of_sys, const std::filesystem::path& disk)
    : diskstats_(root_of_proc / "diskstats"),
      blocks_((root_of_sys / "block").string() + "/"),
      disk_(disk) {}

void DiskUsage::sample(SampleTime now, SystemValues& values) {
  sample_space(values);
  const auto text = reader_.read(diskstats_);
  if (!text) return;
  struct stat status {};
  std::optional<dev_t> device;
  if (::stat(disk_.c_str(), &status) == 0) device = status.st_dev;
  auto counters = disk_counters(*text, blocks_, device);
  add_if_known(values, "system/disk.read_bytes_per_s",
               read_.per_second(std::move(counters.read), now));
  add_if_known(values, "system/disk.write_bytes_per_s",
               written_.per_second(std::move(counters.written), now));
}

// As df: blocks reserved for root are neither used nor free.
void DiskUsage::sample_space(SystemValues& values) const {
  struct statvfs space {};
  if (::statvfs(disk_.c_str(), &space) != 0 || space.f_blocks < space.f_bfree) return;
  const auto block = static_cast<double>(space.f_frsize);
  const auto used = static_cast<double>(space.f_blocks - space.f_bfree) * block;
  const auto free = static_cast<double>(space.f_bavail) * block;
  values.emplace_back("system/disk.used_bytes", used);
  values.emplace_back("system/disk.free_bytes", free);
  if (used + free > 0) values.emplace_back("system/disk.percent", 100.0 * used / (used + free));
}

}  // namespace lockstep::tracking
