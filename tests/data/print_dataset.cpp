// All samples of a dataset as one batch: print_dataset CONFIG OUT [SEED EPOCH]. CONFIG: as a run
// file has it at data.train. Each field's bytes become the file OUT/FIELD; prints {field: {dtype,
// shape}}, or the error in one line. For images_against_python.py.
#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>

#include "core/part.h"
#include "data/dataset.h"

namespace {

using namespace lockstep;

Json write(const Batch& batch, const std::filesystem::path& out) {
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

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  try {
    Part<Dataset> part(dataset_registry());
    part.read(parse_config(argv[1], "argument"), "data.train");
    const auto dataset = part.build();
    std::vector<int64_t> indices(static_cast<size_t>(dataset->size()));
    std::iota(indices.begin(), indices.end(), 0);
    SampleRequest request{.indices = indices};
    if (argc > 4) {
      request.seed = std::stoull(argv[3]);
      request.epoch = std::stoll(argv[4]);
    }
    const auto batch =
        dataset->layout().empty() ? dataset->get_batch(indices) : gather(*dataset, request);
    std::cout << write(batch, argv[2]).dump() << '\n';
  } catch (const Error& error) {
    std::cout << error.what() << '\n';
    return error.exit_code();
  }
}
