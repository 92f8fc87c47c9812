// Keeps a .wandb file on its way to the server while the run goes on: one wandb-core after another,
// as long as that helps.
#pragma once

#include <chrono>
#include <memory>

#include "lockstep/sink.h"
#include "tracking/sinks/wandb/core_session.h"

namespace lockstep::tracking {

class WandbUpload {
 public:
  WandbUpload(UploadTarget target, Environment environment)
      : target_(std::move(target)), environment_(std::move(environment)) {}

  // While the run goes on: starts wandb-core where none runs, and sees how it fares. Does not wait
  // for the server. Throws Config when the server refused the run, Environment when wandb-core
  // failed several times.
  void look();

  // After the exit record: waits until the server has everything. Throws Config when it refused the
  // run, Environment when it takes longer than `timeout` or wandb-core failed several times;
  // wandb-core is gone then.
  void finish(std::chrono::milliseconds timeout);

 private:
  bool wait(std::chrono::milliseconds timeout);

  UploadTarget target_;
  Environment environment_;
  std::unique_ptr<CoreSession> session_;
  int num_failures_ = 0;
};

}  // namespace lockstep::tracking
