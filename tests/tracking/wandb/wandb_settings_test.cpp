#include "tracking/sinks/wandb/wandb_settings.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"
#include "tracking/sinks/wandb/find_core.h"

namespace lockstep::tracking {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

void make_program(const std::filesystem::path& path) {
  make_directories(path.parent_path());
  write_file_durably(path, "#!/bin/sh\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("wandb settings: the defaults are W&B's cloud, online") {
  const auto settings = wandb_settings({}, environment_of({}));
  CHECK(settings.mode == WandbMode::Online);
  CHECK(settings.base_url == "https://api.wandb.ai");
  CHECK(settings.app_url == "https://wandb.ai");
  CHECK(settings.project == "lockstep");
  CHECK(settings.entity.empty());
  CHECK(settings.tags.empty());
}

TEST_CASE("wandb settings: the configuration takes precedence over the environment") {
  const auto environment = environment_of({{"WANDB_MODE", "dryrun"},
                                           {"WANDB_BASE_URL", "https://wandb.lab//"},
                                           {"WANDB_PROJECT", "theirs"},
                                           {"WANDB_TAGS", " a ,,b"}});
  const auto from_environment = wandb_settings({}, environment);
  CHECK(from_environment.mode == WandbMode::Offline);
  CHECK(from_environment.base_url == "https://wandb.lab");
  CHECK(from_environment.app_url == "https://wandb.lab");
  CHECK(from_environment.tags == std::vector<std::string>{"a", "b"});
  const auto settings =
      wandb_settings({.project = "ours", .mode = WandbMode::Online, .tags = {"c"}}, environment);
  CHECK(settings.mode == WandbMode::Online);
  CHECK(settings.project == "ours");
  CHECK(settings.tags == std::vector<std::string>{"c"});
}

TEST_CASE("wandb key: WANDB_API_KEY, else the server's entry in netrc") {
  TemporaryDirectory directory;
  write_file_durably(
      directory / ".netrc",
      "machine a.org login user password one\n"
      "machine wandb.lab login user\n password two\ndefault login x password three\n");
  const Variables home = {{"HOME", directory.path().string()}};
  CHECK(wandb_api_key("https://wandb.lab:8080/x", environment_of(home)) == "two");
  CHECK(wandb_api_key("https://a.org", environment_of(home)) == "one");
  CHECK(wandb_api_key("https://b.org", environment_of(home)) == "three");
  auto with_key = home;
  with_key["WANDB_API_KEY"] = "four";
  CHECK(wandb_api_key("https://a.org", environment_of(with_key)) == "four");
  const Variables named = {{"NETRC", (directory / ".netrc").string()}};
  CHECK(wandb_api_key("https://a.org", environment_of(named)) == "one");
  CHECK_THROWS_WITH(wandb_api_key("https://a.org", environment_of({})),
                    Catch::Contains("https://a.org") && Catch::Contains("WANDB_API_KEY"));
}

TEST_CASE(
    "wandb-core: configured, in PATH, in the virtual environment, next to a python3, in that "
    "order") {
  TemporaryDirectory directory;
  const std::string below = "lib/python3.11/site-packages/wandb/bin/wandb-core";
  const auto configured = directory / "configured", in_path = directory / "bin" / "wandb-core",
             in_venv = directory / "venv" / below, next_to_python = directory / "py" / below;
  for (const auto& program :
       {configured, in_path, in_venv, next_to_python, directory / "py" / "bin" / "python3"})
    make_program(program);
  const auto path = (directory / "bin").string() + ":" + (directory / "py/bin").string();
  const auto environment =
      environment_of({{"PATH", path}, {"VIRTUAL_ENV", (directory / "venv").string()}});
  CHECK(find_wandb_core(configured.string(), environment) == configured);
  CHECK(find_wandb_core(std::nullopt, environment) == in_path);
  std::filesystem::remove(in_path);
  CHECK(find_wandb_core(std::nullopt, environment) == in_venv);
  std::filesystem::remove(in_venv);
  CHECK(find_wandb_core(std::nullopt, environment) == next_to_python);
  std::filesystem::remove(next_to_python);
  CHECK_THROWS_WITH(find_wandb_core(std::nullopt, environment),
                    Catch::Contains("pip install wandb"));
  CHECK_THROWS_WITH(find_wandb_core(next_to_python.string(), environment),
                    Catch::Contains("is not an executable file"));
}

}  // namespace lockstep::tracking
