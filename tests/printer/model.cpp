// model CONFIG OUT: does one forward and backward pass over one batch in file order, on one
// thread, and writes every tensor of it to the directory OUT as NAME.bin (raw bytes). For
// models_against_python.py. CONFIG: a YAML file with seed, batch_size, model and data.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>

#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/part.h"
#include "tests/printer/commands.h"

namespace lockstep::printer {
namespace {

struct JobConfig {
  int64_t seed = 0;
  int64_t batch_size = 1;
  Part<Model> model{model_registry()};
  Part<Dataset> data{dataset_registry()};
};

template <class V>
void fields(V& v, JobConfig& c) {
  v("seed", c.seed, "of the model's initialization");
  v("batch_size", c.batch_size, "samples");
  v("model", c.model, "model");
  v("data", c.data, "dataset");
}

void write_tensor(const std::filesystem::path& directory, const std::string& name,
                  const at::Tensor& tensor) {
  const auto plain = tensor.detach().contiguous();
  std::ofstream file(directory / (name + ".bin"), std::ios::binary);
  file.write(static_cast<const char*>(plain.const_data_ptr()),
             static_cast<std::streamsize>(plain.nbytes()));
}

void print_model_of(const std::string& config_file, const std::filesystem::path& out) {
  JobConfig config;
  read_fields(read_config_file(config_file), "", config);
  at::set_num_threads(1);
  at::manual_seed(static_cast<uint64_t>(config.seed));
  const auto model = config.model.build();
  std::vector<int64_t> indices(static_cast<size_t>(config.batch_size));
  std::iota(indices.begin(), indices.end(), 0);
  const auto batch = config.data.build()->get_batch(indices);
  const auto outputs = model->forward(batch);
  outputs.loss.backward();
  for (const auto& [name, tensor] : batch.fields) write_tensor(out, "batch." + name, tensor);
  for (const auto& parameter : model->named_parameters()) {
    std::cout << parameter.key() << '\n';
    write_tensor(out, "parameter." + parameter.key(), parameter.value());
    write_tensor(out, "gradient." + parameter.key(), parameter.value().grad());
  }
  for (const auto& buffer : model->named_buffers())
    write_tensor(out, "buffer." + buffer.key(), buffer.value());
  write_tensor(out, "logits", outputs.predictions);
  write_tensor(out, "loss", outputs.loss);
  for (const auto& [name, sum] : outputs.sums) write_tensor(out, "sum." + name, sum);
  if (outputs.targets.defined()) write_tensor(out, "targets", outputs.targets);
}

}  // namespace

int print_model(const Arguments& arguments) {
  if (arguments.size() != 2) return 64;
  print_model_of(arguments[0], arguments[1]);
  return 0;
}

}  // namespace lockstep::printer
