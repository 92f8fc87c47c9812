#include "trainer/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/system/crc32c.h"
#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "lockstep/error.h"
#include "models/package_reference.h"

namespace lockstep::trainer {
namespace {

constexpr std::array<std::pair<const char*, at::ScalarType>, 12> kTypes = {{{"F64", at::kDouble},
                                                                            {"F32", at::kFloat},
                                                                            {"F16", at::kHalf},
                                                                            {"BF16", at::kBFloat16},
                                                                            {"I64", at::kLong},
                                                                            {"I32", at::kInt},
                                                                            {"U32", at::kUInt32},
                                                                            {"I16", at::kShort},
                                                                            {"U16", at::kUInt16},
                                                                            {"I8", at::kChar},
                                                                            {"U8", at::kByte},
                                                                            {"BOOL", at::kBool}}};

at::ScalarType scalar_type(const std::string& dtype) {
  for (const auto& [name, value] : kTypes)
    if (dtype == name) return value;
  return at::ScalarType::Undefined;
}

std::vector<formats::TensorEntry> lay_out(const NamedTensors& tensors) {
  std::vector<formats::TensorEntry> entries;
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, dtype_name(tensor.scalar_type()), tensor.sizes().vec(), offset,
                       offset + tensor.nbytes()});
    offset += tensor.nbytes();
  }
  return entries;
}

// A private mapping of a whole file: writing to it changes this process's copy only.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (!file_.is_open() || ::fstat(file_.get(), &status) != 0)
      throw errno_error(fmt::format("cannot read {}", path.string()));
    size_ = static_cast<size_t>(status.st_size);
    if (size_ == 0) return;
    data_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, file_.get(), 0);
    if (data_ == MAP_FAILED) throw errno_error(fmt::format("cannot map {}", path.string()));
  }
  ~MappedFile() {
    if (size_ > 0) ::munmap(data_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  std::span<const uint8_t> bytes() const { return {data(), size_}; }

  // Removes pages from the memory of this process; they are read again when they are used. Changes
  // are lost.
  void release(size_t begin, size_t end) const {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    begin = (begin + page - 1) / page * page;
    end = end / page * page;
    if (begin < end) ::madvise(data() + begin, end - begin, MADV_DONTNEED);
  }

 private:
  FileDescriptor file_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// The tensors of a safetensors file, or of the one in a compiled package.
std::vector<formats::TensorEntry> entries_in(std::span<const uint8_t> file,
                                             const std::filesystem::path& path) {
  if (!models::may_be_package(file)) return formats::parse_safetensors(file, path.string());
  const auto weights = models::weights_of_package(file, path.string());
  auto entries = formats::parse_safetensors(weights, path.string());
  for (auto& entry : entries) {
    entry.begin += static_cast<size_t>(weights.data() - file.data());
    entry.end += static_cast<size_t>(weights.data() - file.data());
  }
  return entries;
}

// The tensor of `entry`, in the mapping itself unless the file does not align it.
at::Tensor tensor_in(const std::shared_ptr<const MappedFile>& file,
                     const formats::TensorEntry& entry) {
  const auto type = scalar_type(entry.dtype);
  auto* const data = file->data() + entry.begin;
  if (entry.end > entry.begin && reinterpret_cast<uintptr_t>(data) % c10::elementSize(type) == 0)
    return at::from_blob(
        data, entry.shape,
        [file, begin = entry.begin, end = entry.end](void*) { file->release(begin, end); }, type);
  auto tensor = at::empty(entry.shape, type);
  if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), data, tensor.nbytes());
  return tensor;
}

void verify_checksum(const formats::TensorEntry& entry, std::span<const uint8_t> file,
                     const std::map<std::string, uint32_t>& checksums,
                     const std::filesystem::path& path) {
  const auto expected = checksums.find(entry.name);
  if (expected == checksums.end() ||
      crc32c(file.data() + entry.begin, entry.end - entry.begin) != expected->second)
    throw environment_error(fmt::format("{}: tensor '{}' is corrupt (its checksum differs)",
                                        path.string(), entry.name));
}

}  // namespace

const char* dtype_name(at::ScalarType type) {
  for (const auto& [name, value] : kTypes)
    if (value == type) return name;
  throw Error(ErrorKind::Bug,
              std::string("safetensors has no name for dtype ") + c10::toString(type));
}

std::map<std::string, uint32_t> write_safetensors(const std::filesystem::path& path,
                                                  const NamedTensors& tensors,
                                                  const FetchTensor& fetch,
                                                  const formats::SafetensorsMetadata& metadata) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.is_open()) throw errno_error(fmt::format("cannot create {}", path.string()));
  const auto header = make_safetensors_header(lay_out(tensors), metadata);
  write_all(file.get(), header, path);
  std::map<std::string, uint32_t> checksums;
  for (const auto& [name, tensor] : tensors) {
    const auto plain = (tensor.is_meta() ? fetch(name) : tensor).detach().cpu().contiguous();
    const std::string_view bytes(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
    checksums[name] = crc32c(bytes.data(), bytes.size());
    write_all(file.get(), bytes, path);
    // Starts writeback while the next tensors are prepared. Errors are left to fsync().
    ::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  }
  if (::fsync(file.get()) != 0) throw errno_error(fmt::format("cannot sync {}", path.string()));
  return checksums;
}

NamedTensors read_safetensors(const std::filesystem::path& path,
                              const std::optional<std::map<std::string, uint32_t>>& checksums) {
  const auto file = std::make_shared<const MappedFile>(path);
  const auto entries = entries_in(file->bytes(), path);
  if (checksums && entries.size() != checksums->size())
    throw environment_error(fmt::format("{}: has {} tensors, expected {}", path.string(),
                                        entries.size(), checksums->size()));
  NamedTensors tensors;
  for (const auto& entry : entries) {
    if (checksums) {
      verify_checksum(entry, file->bytes(), *checksums, path);
      file->release(entry.begin, entry.end);
    }
    tensors.emplace_back(entry.name, tensor_in(file, entry));
  }
  return tensors;
}

size_t bytes_of(const NamedTensors& tensors) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace lockstep::trainer
