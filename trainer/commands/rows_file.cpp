#include "trainer/commands/rows_file.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "core/system/durable_file.h"
#include "formats/safetensors_header.h"
#include "lockstep/error.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {
namespace {

std::filesystem::path directory_of_file(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

RowsFile::RowsFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  if (std::filesystem::is_directory(path_, error))
    throw config_error(fmt::format("cannot write {}: it is a directory", path_.string()));
  if (std::filesystem::is_other(path_, error))  // it would be replaced
    throw config_error(
        fmt::format("cannot write {}: it is a device or pipe, not a file", path_.string()));
  const auto directory = directory_of_file(path_);
  file_ = FileDescriptor(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644));
  if (file_.is_open()) return;
  temporary_ = path_;
  temporary_ += fmt::format(".tmp-{}", ::getpid());
  file_ =
      FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file_.is_open()) {
    temporary_.clear();
    throw errno_error(fmt::format("cannot create {}", path_.string()));
  }
}

RowsFile::~RowsFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void RowsFile::begin(const std::string& name, at::ScalarType type,
                     const std::vector<int64_t>& shape) {
  size_t bytes = c10::elementSize(type);
  for (const auto size : shape) bytes *= static_cast<size_t>(size);
  const auto header = formats::make_safetensors_header({{name, dtype_name(type), shape, 0, bytes}});
  const auto error = ::posix_fallocate(file_.get(), 0, static_cast<off_t>(header.size() + bytes));
  if (error != 0)
    throw environment_error(fmt::format("cannot reserve {} bytes for {}: {}", header.size() + bytes,
                                        path_.string(), std::generic_category().message(error)));
  write_all(file_.get(), header, path_);
}

void RowsFile::write(const at::Tensor& rows) {
  const auto plain = rows.contiguous();
  write_all(file_.get(), {static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()}, path_);
}

void RowsFile::finish() {
  if (::fsync(file_.get()) != 0) throw errno_error(fmt::format("cannot sync {}", path_.string()));
  if (temporary_.empty()) {
    auto name = path_;
    name += fmt::format(".tmp-{}", ::getpid());
    const auto open_file = fmt::format("/proc/self/fd/{}", file_.get());
    if (::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
      throw errno_error(fmt::format("cannot create {}", name.string()));
    temporary_ = name;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw errno_error(fmt::format("cannot rename {} to {}", temporary_.string(), path_.string()));
  temporary_.clear();
  sync_directory(directory_of_file(path_));
}

}  // namespace lockstep::trainer
