// `lockstep new KIND NAME`
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/new_project/project_files.h"
#include "cli/trainer_program.h"
#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNewHelp = R"(lockstep new: write a project

  lockstep new run NAME
        a run file with a small table, and a test that trains on it
  lockstep new model NAME
        a model as a plugin: source, CMakeLists.txt, run file and test
  lockstep new dataset NAME
        the same for a dataset
  lockstep new sink NAME
        the same for a sink, a destination of metrics

Writes the folder NAME, which must not exist. NAME: lower-case letters, digits and '_', beginning
with a letter, not that of a part that Lockstep has. Then, in the folder:
  cmake -S . -B build && cmake --build build && ctest --test-dir build
)";

constexpr size_t kMaxNameLength = 60;

void verify_name(const std::string& name) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const bool valid = !name.empty() && name.size() <= kMaxNameLength && letter(name.front()) &&
                     std::ranges::all_of(name, [&](char c) {
                       return letter(c) || (c >= '0' && c <= '9') || c == '_';
                     });
  if (!valid)
    throw config_error(fmt::format(
        "lockstep new: name '{}': expected lower-case letters, digits and '_', at most {}, "
        "beginning with a letter",
        printable(name, 100), kMaxNameLength));
  for (const char* taken : {"lockstep", "test", "all", "clean", "install", "class", "config",
                            "help", "int", "namespace"})
    if (name == taken)
      throw config_error(fmt::format("lockstep new: name '{}' is reserved; choose another", name));
}

// A plugin cannot register a name that Lockstep has. `schema`: of the run file.
void verify_is_new(const std::string& kind, const std::string& name, const Json& schema) {
  static const std::map<std::string, std::string> places = {
      {"model", "/properties/model/anyOf"},
      {"dataset", "/properties/data/properties/train/anyOf"},
      {"sink", "/properties/tracking/properties/sinks/items/anyOf/1/anyOf"}};
  const auto place = places.find(kind);
  if (place == places.end()) return;
  for (const auto& part : schema.at(Json::json_pointer(place->second)))
    if (part.at("properties").at("name").at("const") == name)
      throw config_error(
          fmt::format("lockstep new: Lockstep has a {} '{}'; choose another name", kind, name));
}

// Into a temporary folder first: NAME is complete or absent.
void write_project(const std::string& kind, const std::string& name) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(name, error)))
    throw config_error(fmt::format("lockstep new: '{}' exists; choose another name", name));
  const auto schema = run_file_schema();
  if (!schema.empty()) verify_is_new(kind, name, Json::parse(schema));
  const fs::path part = "." + name + ".part";
  fs::remove_all(part, error);
  if (!fs::create_directory(part, error))
    throw environment_error(fmt::format("lockstep new: cannot create a folder in '{}': {}",
                                        fs::current_path().string(), error.message()));
  for (const auto& [file, text] : project_files(kind, name)) write_file_durably(part / file, text);
  if (!schema.empty()) write_file_durably(part / "run_file.schema.json", schema);
  fs::rename(part, name, error);
  if (error)
    throw environment_error(
        fmt::format("lockstep new: cannot create '{}': {}", name, error.message()));
}

}  // namespace

int new_command(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (wants_help(words)) {
    fmt::print("{}", kNewHelp);
    return 0;
  }
  const auto kinds = project_kinds();
  if (words.empty())
    throw config_error("lockstep new: the kind of project is missing" + suggest("", kinds));
  const auto& kind = words.front();
  if (std::ranges::find(kinds, kind) == kinds.end())
    throw config_error(fmt::format("lockstep new: unknown kind '{}'{}", printable(kind, 100),
                                   suggest(kind, kinds)));
  if (words.size() != 2) throw config_error(fmt::format("usage: lockstep new {} NAME", kind));
  const auto& name = words[1];
  verify_name(name);
  write_project(kind, name);
  fmt::print("wrote {0}/\nnext: cd {0} && cmake -S . -B build && {1}ctest --test-dir build\n", name,
             kind == "run" ? "" : "cmake --build build && ");
  return 0;
}

}  // namespace lockstep::cli
