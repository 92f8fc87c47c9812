#include "trainer/checkpoint/checkpoint_note.h"

#include <fmt/format.h>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "core/system/local_address.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "trainer/checkpoint/checkpoint.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxPathLength = 4096;

bool has_several_nodes(const World& world) { return world.local_world_size() < world.world_size(); }

fs::path note_path(const fs::path& checkpoints) {
  return checkpoints.parent_path() / "checkpoints-elsewhere.json";
}

// Returns null if there is no note or it cannot be read.
nlohmann::json read_note(const fs::path& checkpoints) {
  std::error_code error;
  if (!fs::exists(note_path(checkpoints), error)) return nullptr;
  try {
    auto note = nlohmann::json::parse(read_file(note_path(checkpoints)));
    for (const char* key : {"host", "directory"}) note.at(key).get<std::string>();
    note.at("step").get<int64_t>();
    note["seen_by"] = own_host_name();
    return note;
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

CheckpointNote locate_checkpoints(World& world, const fs::path& checkpoints) {
  if (!has_several_nodes(world)) return {};
  const auto found = distributed::act_on_main(world, "place of checkpoints", [&] {
    return nlohmann::json{own_host_name(), fs::absolute(checkpoints).string()};
  });
  return {.host = found[0], .directory = found[1]};
}

void write_checkpoint_note(const fs::path& checkpoints, const CheckpointNote& note, int64_t step) {
  if (note.host.empty() || !list_checkpoints(checkpoints).empty()) return;
  make_directories(checkpoints.parent_path());
  const nlohmann::json text = {{"host", note.host}, {"directory", note.directory}, {"step", step}};
  write_file_durably(note_path(checkpoints), text.dump() + "\n");
}

void verify_no_checkpoint_elsewhere(World& world, const fs::path& checkpoints) {
  if (!has_several_nodes(world)) return;
  for (const auto& note :
       distributed::all_gather_object(world, read_note(checkpoints), "notes of checkpoints")) {
    if (note.is_null()) continue;
    const auto text = [&](const char* key) {
      return printable(note[key].get<std::string>(), kMaxPathLength);
    };
    const auto main_host =
        distributed::act_on_main(world, "host name", [] { return own_host_name(); });
    throw config_error(fmt::format(
        "run {} would start at step 0: rank 0 on {} has no checkpoint of it, but {} has a note of "
        "checkpoints of step {} and later, in {} on {}: copy that directory to {}, or set "
        "checkpoint.resume=never to train from scratch",
        checkpoints.parent_path().filename().string(), printable(main_host.get<std::string>()),
        text("seen_by"), note["step"].get<int64_t>(), text("directory"), text("host"),
        printable(main_host.get<std::string>())));
  }
}

}  // namespace lockstep::trainer
