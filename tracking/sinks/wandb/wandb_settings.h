// Destination and identity of a run at W&B, from the sink's config and the environment variables of
// W&B's programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/config_value.h"
#include "lockstep/sink.h"
#include "tracking/http/public_url.h"

namespace lockstep::tracking {

enum class WandbMode { Online, Offline, Disabled };
// Disabled can be set only by WANDB_MODE.
constexpr auto choices(WandbMode) { return std::array{"online", "offline"}; }

// Values that are not set are taken from the environment.
struct WandbConfig {
  std::optional<std::string> project;  // else WANDB_PROJECT, else "lockstep"
  std::optional<std::string> entity;   // else WANDB_ENTITY, else the default of the key's user
  std::optional<WandbMode> mode;       // else WANDB_MODE, else "online"
  std::optional<PublicUrl> base_url;   // else WANDB_BASE_URL, else https://api.wandb.ai
  std::vector<std::string> tags;       // else WANDB_TAGS, separated by commas
  std::optional<std::string> notes;    // else WANDB_NOTES
  std::optional<std::string> core;     // path of wandb-core, else see find_core.h
  int64_t upload_every = 15;           // seconds between two requests of a live run
  double finish_timeout = 60;          // seconds to wait for the upload at the end of the run
};
template <class V>
void fields(V& v, WandbConfig& c) {
  v("project", c.project, "project at W&B; WANDB_PROJECT or lockstep when not set");
  v("entity", c.entity, "user or team at W&B; WANDB_ENTITY or the user's default when not set");
  v("mode", c.mode,
    "online: upload during the run, offline: write the file only; WANDB_MODE "
    "or online when not set");
  v("base_url", c.base_url, "W&B server; WANDB_BASE_URL or https://api.wandb.ai when not set");
  v("tags", c.tags, "tags of the run; WANDB_TAGS when not set");
  v("notes", c.notes, "text about the run; WANDB_NOTES when not set");
  v("core", c.core, "path of the program wandb-core; searched when not set");
  v("upload_every", c.upload_every, "seconds between two requests of a live run", at_least(1));
  v("finish_timeout", c.finish_timeout, "seconds that the end of the run waits for the upload",
    above(0));
}

struct WandbSettings {
  WandbMode mode = WandbMode::Online;
  std::string base_url, app_url;  // without trailing slash
  std::string project, entity, notes;
  std::vector<std::string> tags;
  std::string group, job_type, name;  // WANDB_RUN_GROUP, WANDB_JOB_TYPE, WANDB_NAME
  std::optional<std::string> root;    // WANDB_DIR: output directory instead of the run's directory
};

// Throws Config if a variable has an invalid value.
WandbSettings wandb_settings(const WandbConfig& config, const Environment& environment);

// Returns WANDB_API_KEY, else the key for the server's host from the netrc file (NETRC, else
// ~/.netrc). Throws Config with instructions if there is no key or it is malformed; messages never
// contain any part of the key.
std::string wandb_api_key(const std::string& base_url, const Environment& environment);

}  // namespace lockstep::tracking
