// Uploads a .wandb file during the run. Restarts wandb-core when it fails, a limited number of
// times.
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

  // Called during the run: starts wandb-core if it is not running and checks the upload. Does not
  // wait for the server. Throws Config if the server rejected the run, Environment if wandb-core
  // failed several times.
  void poll();

  // Called after the exit record: waits until everything is uploaded. Throws Config if the server
  // rejected the run, Environment after `timeout` or if wandb-core failed several times; wandb-core
  // has exited then.
  void finish(std::chrono::milliseconds timeout);

 private:
  bool wait(std::chrono::milliseconds timeout);

  UploadTarget target_;
  Environment environment_;
  std::unique_ptr<CoreSession> session_;
  int num_failures_ = 0;
};

}  // namespace lockstep::tracking
