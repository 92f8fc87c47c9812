#include "core/config/plugin.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "tests/data/error_of.h"
#include "tests/temporary_directory.h"

using namespace lockstep;

namespace {

std::string error_of_loading(const std::string& path) {
  return error_of([&] { load_plugin(path, ""); });
}

}  // namespace

TEST_CASE("plugin: the stamp names interface, LibTorch and ABI") {
  CHECK(plugin_stamp("2.11.0") == "interface=12 torch=2.11.0 cxx11_abi=1");
  CHECK(plugin_stamp("") == "interface=12 torch=none cxx11_abi=1");
}

TEST_CASE("plugin: a plugin with the right stamp is loaded and its initializers run") {
  load_plugin(GOOD_PLUGIN, "");
  void* handle = ::dlopen(GOOD_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(handle != nullptr);  // it stays for the rest of the process
  const auto* initialized = static_cast<const int*>(::dlsym(handle, "lockstep_plugin_initialized"));
  REQUIRE(initialized != nullptr);
  CHECK(*initialized == 42);
  CHECK_NOTHROW(load_plugin(GOOD_PLUGIN, ""));
}

TEST_CASE("plugin: a plugin of another build is rejected before its code runs") {
  CHECK(error_of([] { load_plugin(OTHER_PLUGIN, ""); }) ==
        std::string("config: plugin " OTHER_PLUGIN
                    ": built for [interface=12 torch=1.0.0 cxx11_abi=1], this program "
                    "needs [interface=12 torch=none cxx11_abi=1]; it is not a plugin of sinks "
                    "(lockstep_add_sink_plugin()): list it in plugins, not in tracking.plugins"));
  CHECK(::dlopen(OTHER_PLUGIN, RTLD_NOW | RTLD_NOLOAD) == nullptr);
}

TEST_CASE("plugin: a plugin for another patch release of LibTorch is loaded") {
  const TemporaryDirectory directory;
  const auto copy = directory / "other.so";
  std::filesystem::copy_file(OTHER_PLUGIN, copy);
  CHECK(error_of([&] { load_plugin(copy, "1.1.0"); }) != "no error");
  CHECK(error_of([&] { load_plugin(copy, "1.0.7+cpu"); }) == "no error");
}

TEST_CASE("plugin: a plugin of sinks in the place of another part is named") {
  CHECK(error_of([] {
          load_plugin(GOOD_PLUGIN, "1.0.0");
        }).ends_with("it is a plugin of sinks: list it in tracking.plugins"));
  CHECK(error_of([] { load_plugin(OTHER_PLUGIN, "2.0.0"); }).ends_with("; rebuild the plugin"));
}

TEST_CASE("plugin: a shared object without a stamp is rejected") {
  CHECK(error_of_loading(UNSTAMPED_PLUGIN) ==
        std::string("config: plugin " UNSTAMPED_PLUGIN
                    ": has no Lockstep stamp; build it with lockstep_add_plugin()"));
}

TEST_CASE("plugin: errors identify a missing file, a directory and a text file") {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "model.so").string();
  CHECK(error_of_loading(path) == "config: plugin " + path + ": no such file");
  CHECK(error_of_loading("model.so") ==
        "config: plugin model.so: no such file (plugin paths are relative to the working "
        "directory, " +
            std::filesystem::current_path().string() + ")");
  CHECK(error_of_loading(directory.path()).ends_with(": not a regular file"));
  write_file_durably(path, "lockstep-plugin-stamp{interface=12 torch=none cxx11_abi=1}");
  CHECK(error_of_loading(path) == "config: plugin " + path + ": not a shared object");
  write_file_durably(path, "");
  CHECK(error_of_loading(path) == "config: plugin " + path + ": not a shared object");
}

TEST_CASE("plugin: a truncated file yields the dynamic linker's error") {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "torn.so").string();
  write_file_durably(path,
                     "\x7f"
                     "ELF lockstep-plugin-stamp{" +
                         plugin_stamp("") + "}");
  const auto text = error_of_loading(path);
  CHECK(text.starts_with("config: plugin " + path + ": "));
  CHECK(text.size() > ("config: plugin " + path + ": ").size());
}

TEST_CASE("plugin: a binary stamp is shown on one line, an unterminated one is ignored") {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "x.so").string();
  write_file_durably(path,
                     "\x7f"
                     "ELF lockstep-plugin-stamp{a\nb}");
  CHECK(error_of_loading(path).find("built for [a\\nb]") != std::string::npos);
  write_file_durably(path,
                     "\x7f"
                     "ELF lockstep-plugin-stamp{" +
                         std::string(1'000, 'x') + "}");
  CHECK(error_of_loading(path).find("has no Lockstep stamp") != std::string::npos);
  write_file_durably(path,
                     "\x7f"
                     "ELF lockstep-plugin-stamp{interface=12");
  CHECK(error_of_loading(path).find("has no Lockstep stamp") != std::string::npos);
}

TEST_CASE("plugin: a path without a slash is relative to the working directory") {
  const TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.path());
  std::filesystem::copy_file(GOOD_PLUGIN, "plugin.so");
  const auto text = error_of_loading("plugin.so");
  std::filesystem::current_path(before);
  CHECK(text == "no error");
}
