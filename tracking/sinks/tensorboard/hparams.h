// The config and outcome of a run as a session of TensorBoard's HParams tab.
// Source: tensorboard/plugins/hparams/plugin_data.proto, as in TensorBoard 2.21.
//
// `_hparams_/experiment` is not written: TensorBoard applies that of one run to all displayed runs,
// which hides the columns of the others. Without it, TensorBoard derives hyperparameters and
// metrics (every scalar) itself.
#pragma once

#include "lockstep/config_value.h"
#include "lockstep/run_info.h"
#include "tracking/sinks/protobuf_writer.h"

namespace lockstep::tracking::tensorboard {

// The flattened config, e.g. "optimizer.lr". Entries of a job form a session group; TensorBoard
// shows the mean of its metrics.
ProtobufWriter session_start_value(const RunInfo& info, const Json& config);

// The encoded size is the same for every outcome.
ProtobufWriter session_end_value(const RunEnd& end, double time);

}  // namespace lockstep::tracking::tensorboard
