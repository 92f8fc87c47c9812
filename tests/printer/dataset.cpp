// All samples of a dataset as one batch: dataset CONFIG OUT [SEED EPOCH]. CONFIG: `data.train` of
// a run file. Each field's bytes become the file OUT/FIELD; prints {field: {dtype, shape}},
// or the error in one line. For images_against_python.py.
#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>

#include "lockstep/dataset.h"
#include "lockstep/part.h"
#include "tests/printer/commands.h"

namespace lockstep::printer {
namespace {

Json write_batch(const Batch& batch, const std::filesystem::path& out) {
  auto fields = Json::object();
  for (const auto& [name, tensor] : batch.fields) {
    std::ofstream(out / name, std::ios::binary)
        .write(static_cast<const char*>(tensor.contiguous().const_data_ptr()),
               static_cast<std::streamsize>(tensor.nbytes()));
    fields[name] = {{"dtype", c10::toString(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()}};
  }
  return fields;
}

}  // namespace

int print_dataset(const Arguments& arguments) {
  if (arguments.size() < 2) return 64;
  try {
    Part<Dataset> part(dataset_registry());
    part.read(parse_config(arguments[0], "argument"), "data.train");
    const auto dataset = part.build();
    std::vector<int64_t> indices(static_cast<size_t>(dataset->size()));
    std::iota(indices.begin(), indices.end(), 0);
    SampleRequest request{.indices = indices};
    if (arguments.size() > 3) {
      request.seed = std::stoull(arguments[2]);
      request.epoch = std::stoll(arguments[3]);
    }
    const auto batch =
        dataset->layout().empty() ? dataset->get_batch(indices) : gather(*dataset, request);
    std::cout << write_batch(batch, arguments[1]).dump() << '\n';
  } catch (const Error& error) {
    std::cout << error.what() << '\n';
    return error.exit_code();
  }
  return 0;
}

}  // namespace lockstep::printer
