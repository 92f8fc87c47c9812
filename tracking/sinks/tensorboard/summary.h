// Encodes values for TensorBoard: each function returns one `Summary.Value`.
// Source of the field numbers: tensorboard/compat/proto/{summary,tensor,tensor_shape}.proto,
// tensorboard/plugins/{text,custom_scalar}/*.proto, as in TensorBoard 2.21.
//
// Tags and texts may contain any bytes: invalid UTF-8 is shown as "\xff".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/record.h"
#include "tracking/sinks/protobuf_writer.h"

namespace lockstep::tracking::tensorboard {

// Stored as a 32-bit float, including NaN and infinities.
ProtobufWriter scalar_value(std::string_view tag, double value);

// `markdown` is rendered.
ProtobufWriter text_value(std::string_view tag, std::string_view markdown);

// Minimum, maximum, sum and sum of squares are estimated from the bins.
ProtobufWriter histogram_value(const Histogram& histogram);

ProtobufWriter image_value(const Image& image);

// TensorBoard plays WAV files.
ProtobufWriter audio_value(const Clip& clip);

// A margin chart for each of `names`: "name" between "name/min" and "name/max".
ProtobufWriter layout_value(const std::vector<std::string>& names);

// A value stored entirely in the metadata of its tag, for `plugin`.
ProtobufWriter metadata_value(std::string_view tag, std::string_view plugin,
                              const ProtobufWriter& content);

std::string markdown(const Table& table);
std::string markdown(const Alert& alert);

}  // namespace lockstep::tracking::tensorboard
