// The run as a session of TensorBoard's HParams tab: its config, and how it ended.
// Source: tensorboard/plugins/hparams/plugin_data.proto, as in TensorBoard 2.21.
//
// There is no `_hparams_/experiment`: TensorBoard takes that of any one run for all the runs that
// it shows, which would hide the columns of the others. Without one it finds hyperparameters and
// metrics (every scalar) by itself.
#pragma once

#include "lockstep/config_value.h"
#include "lockstep/run_info.h"
#include "tracking/sinks/protobuf_writer.h"

namespace lockstep::tracking::tensorboard {

// The config flattened, "optimizer.lr". Entries of one job are one session group, in which
// TensorBoard takes the mean of their metrics.
ProtobufWriter session_start_value(const RunInfo& info, const Json& config);

// Takes the same number of bytes for every end.
ProtobufWriter session_end_value(const RunEnd& end, double time);

}  // namespace lockstep::tracking::tensorboard
