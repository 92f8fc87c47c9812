// Prints a dataset for datasets_against_python.py: split FILE WORLD BATCH WORKERS.
// FILE has {train, eval, split} as in `data:` of a run file. Prints for each part, rank and batch,
// without shuffling: a line of JSON that describes the tensors, then their bytes.
#include <ATen/ATen.h>

#include <iostream>

#include "data/loader/loader.h"
#include "data/sampling/sampler.h"
#include "data/sampling/split.h"
#include "lockstep/config_fields.h"
#include "tests/printer/commands.h"

namespace lockstep::printer {
namespace {

struct Parts {
  Part<Dataset> train{dataset_registry()}, eval{dataset_registry()};
  data::SplitConfig split;
};

template <class V>
void fields(V& v, Parts& c) {
  v("train", c.train, "", required());
  v("eval", c.eval, "");
  v("split", c.split, "");
}

void print_batch(const Batch& batch, const std::string& part, int64_t rank) {
  Json header = {{"part", part}, {"rank", rank}, {"tensors", Json::array()}};
  auto tensors = batch.fields;
  tensors.emplace_back("indices", batch.indices);
  for (const auto& [name, tensor] : tensors)
    header["tensors"].push_back({{"name", name},
                                 {"dtype", c10::toString(tensor.scalar_type())},
                                 {"shape", tensor.sizes().vec()},
                                 {"bytes", tensor.nbytes()}});
  std::cout << header.dump() << '\n';
  for (const auto& [name, tensor] : tensors)
    std::cout.write(static_cast<const char*>(tensor.contiguous().const_data_ptr()),
                    static_cast<std::streamsize>(tensor.nbytes()));
}

void print_part(const Dataset& dataset, const std::string& part, const Arguments& arguments) {
  const auto world = std::stoll(arguments[1]);
  for (int64_t rank = 0; rank < world; ++rank) {
    const data::Shard shard{.rank = rank, .world = world};
    const auto indices =
        part == "eval"
            ? exact_split(dataset.size(), shard)
            : data::DistributedSampler(dataset.size(), shard, {.shuffle = false}).indices();
    data::LoaderOptions options;
    options.batch_size = std::stoll(arguments[2]);
    options.workers = std::stoll(arguments[3]);
    data::Loader loader(dataset, indices, options);
    while (const auto batch = loader.next()) print_batch(*batch, part, rank);
  }
}

}  // namespace

int print_split(const Arguments& arguments) {
  if (arguments.size() != 4) return 64;
  Parts parts;
  read_fields(read_config_file(arguments[0]), "data", parts);
  const auto sets = build_datasets(parts.train, parts.eval, parts.split);
  print_part(*sets.train, "train", arguments);
  if (sets.eval) print_part(*sets.eval, "eval", arguments);
  return 0;
}

}  // namespace lockstep::printer
