// Prints a dataset for datasets_against_python.py: print_split FILE WORLD BATCH WORKERS.
// FILE has {train, eval, split} as `data:` of a run file has. For each part, rank and batch,
// without shuffling: a line of JSON that says which tensors follow, then their bytes.
#include <ATen/ATen.h>

#include <iostream>

#include "core/config_fields.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "data/split.h"

namespace {

using namespace lockstep;

struct Parts {
  Part<Dataset> train{dataset_registry()}, eval{dataset_registry()};
  SplitConfig split;
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

void print(const Dataset& dataset, const std::string& part, char** argv) {
  const auto world = std::stoll(argv[2]);
  for (int64_t rank = 0; rank < world; ++rank) {
    const Shard shard{.rank = rank, .world = world};
    const auto indices =
        part == "eval" ? exact_split(dataset.size(), shard)
                       : DistributedSampler(dataset.size(), shard, {.shuffle = false}).indices();
    LoaderOptions options;
    options.batch_size = std::stoll(argv[3]);
    options.workers = std::stoll(argv[4]);
    Loader loader(dataset, indices, options);
    while (const auto batch = loader.next()) print_batch(*batch, part, rank);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 64;
  try {
    Parts parts;
    lockstep::read_fields(lockstep::read_config_file(argv[1]), "data", parts);
    const auto sets = lockstep::build_datasets(parts.train, parts.eval, parts.split);
    print(*sets.train, "train", argv);
    if (sets.eval) print(*sets.eval, "eval", argv);
  } catch (const lockstep::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
