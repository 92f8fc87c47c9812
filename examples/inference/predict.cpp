// Prints the predictions of a model that `lockstep ckpt export --format aoti` wrote, with LibTorch only.
//   predict MODEL.pt2 INPUT.pt...
// INPUT.pt: an input of the model, a batch that Python wrote with torch.save(tensor, "INPUT.pt").
#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

at::Tensor load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  return torch::jit::pickle_load(bytes).toTensor();
}

int main(int argc, char** argv) try {
  if (argc < 3) throw std::runtime_error("expected MODEL.pt2 INPUT.pt...");
  torch::inductor::AOTIModelPackageLoader model(argv[1]);
  std::vector<at::Tensor> inputs;
  for (int i = 2; i < argc; ++i) inputs.push_back(load(argv[i]));
  const auto predictions = model.run(inputs).at(0).to(at::kCPU, at::kFloat);
  const auto rows = predictions.reshape({predictions.size(0), -1}).contiguous();
  const auto* value = rows.const_data_ptr<float>();
  std::cout.precision(9);  // all bits of a float
  for (int64_t row = 0; row < rows.size(0); ++row) {
    for (int64_t column = 0; column < rows.size(1); ++column) std::cout << *value++ << ' ';
    std::cout << '\n';
  }
  return 0;
} catch (const std::exception& error) {
  const std::string text = error.what();  // LibTorch adds a stack trace
  std::cerr << "predict: error: " << text.substr(0, text.find('\n')) << '\n';
  return 1;
}
