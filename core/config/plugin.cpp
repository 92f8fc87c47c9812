#include "core/config/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/minor_version.h"
#include "core/printable.h"
#include "core/relative_path_hint.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "lockstep/version.h"

namespace lockstep {
namespace {

// Split, so that this program's copy of the marker is not mistaken for the stamp of a plugin.
constexpr std::string_view kMarkerBegin = "lockstep-plugin-stamp";
constexpr char kOpen = '{', kClose = '}';
constexpr size_t kMaxPluginBytes = size_t{1} << 30;
constexpr size_t kMaxStampBytes = 200;

// File names in load order.
std::vector<std::string>& plugin_names() {
  static std::vector<std::string> names;
  return names;
}

std::string find_stamp(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw config_error(fmt::format("plugin {}: no such file{}", path.string(),
                                   relative_path_hint(path, "plugin")));
  std::string content;
  try {
    content = read_file(path, kMaxPluginBytes);
  } catch (const Error& error) {
    throw config_error(fmt::format("plugin {}: {}", path.string(), error.what()));
  }
  if (!content.starts_with("\x7f"
                           "ELF"))
    throw config_error(fmt::format("plugin {}: not a shared object", path.string()));
  const auto begin = content.find(fmt::format("{}{}", kMarkerBegin, kOpen));
  if (begin != std::string::npos) {
    const auto first = begin + kMarkerBegin.size() + 1;
    const auto end = content.find(kClose, first);
    if (end != std::string::npos && end - first <= kMaxStampBytes)
      return printable(content.substr(first, end - first), kMaxStampBytes);
  }
  throw config_error(fmt::format(
      "plugin {}: has no Lockstep stamp; build it with lockstep_add_plugin()", path.string()));
}

// A plugin for 2.11.0 is loaded with LibTorch 2.11.1.
std::string without_patch_release(const std::string& stamp) {
  constexpr std::string_view kTorch = " torch=";
  const auto found = stamp.find(kTorch);
  if (found == std::string::npos) return stamp;
  const auto begin = found + kTorch.size(), end = std::min(stamp.find(' ', begin), stamp.size());
  return stamp.substr(0, begin) + minor_of(stamp.substr(begin, end - begin)) + stamp.substr(end);
}

// Sinks are built without LibTorch, other parts with it.
bool is_of_a_sink(const std::string& stamp) {
  return stamp.find(" torch=none ") != std::string::npos;
}

std::string remedy(const std::string& stamp, const std::string& expected) {
  if (is_of_a_sink(stamp) == is_of_a_sink(expected)) return "rebuild the plugin";
  return is_of_a_sink(stamp) ? "it is a plugin of sinks: list it in tracking.plugins"
                             : "it is not a plugin of sinks (lockstep_add_sink_plugin()): list it "
                               "in plugins, not in tracking.plugins";
}

}  // namespace

std::string plugin_stamp(const std::string& torch_version) {
  return fmt::format("interface={} torch={} cxx11_abi={}", kPluginInterface,
                     torch_version.empty() ? "none" : torch_version, _GLIBCXX_USE_CXX11_ABI);
}

void load_plugin(const std::filesystem::path& path, const std::string& torch_version) {
  const auto stamp = find_stamp(path);
  const auto expected = plugin_stamp(torch_version);
  if (without_patch_release(stamp) != without_patch_release(expected))
    throw config_error(fmt::format("plugin {}: built for [{}], this program needs [{}]; {}",
                                   path.string(), stamp, expected, remedy(stamp, expected)));
  // Without a slash, the dynamic linker would search its library path for another file.
  const auto absolute = std::filesystem::absolute(path);
  if (!::dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL))
    throw config_error(fmt::format("plugin {}: {}", path.string(), ::dlerror()));
  const auto name = printable(path.filename().string());
  if (std::ranges::find(plugin_names(), name) == plugin_names().end())
    plugin_names().push_back(name);
}

void load_any_plugin(const std::filesystem::path& path, const std::string& torch_version) {
  load_plugin(path, is_of_a_sink(find_stamp(path)) ? "" : torch_version);
}

std::string describe_loaded_plugins() {
  if (plugin_names().empty()) return "";
  return fmt::format(" (loaded plugins: {})", fmt::join(plugin_names(), ", "));
}

}  // namespace lockstep
