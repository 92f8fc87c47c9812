#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "distributed/backends/backends.h"

namespace lockstep::distributed {
namespace {

// LibTorch 2.11 throws a plain c10::Error where its other stores throw a c10::DistStoreError.
template <class Wait>
auto with_store_error(const Wait& wait) {
  try {
    return wait();
  } catch (const c10::DistError&) {
    throw;
  } catch (const c10::Error& error) {
    throw c10::DistStoreError(error.msg(), error.backtrace());
  }
}

class FileStore final : public c10d::FileStore {
 public:
  FileStore(const std::string& path, int world_size)
      : c10d::FileStore(path, world_size), world_size_(world_size) {}

  c10::intrusive_ptr<Store> clone() override {
    return c10::make_intrusive<FileStore>(getPath(), world_size_);
  }
  std::vector<uint8_t> get(const std::string& key) override {
    return with_store_error([&] { return c10d::FileStore::get(key); });
  }
  using c10d::FileStore::wait;  // wait(keys) calls the one below
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    with_store_error([&] { c10d::FileStore::wait(keys, timeout); });
  }

 private:
  int world_size_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> make_file_store(const std::filesystem::path& path, int world_size) {
  return c10::make_intrusive<FileStore>(path.string(), world_size);
}

}  // namespace lockstep::distributed
