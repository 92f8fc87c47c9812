// SHA-256, also incremental.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace lockstep::tracking {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes);
  // 64 lowercase hex digits. Call once.
  std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// 64 lowercase hex digits.
std::string sha256_of(std::string_view bytes);

// Whether `text` has that form.
bool is_sha256(std::string_view text);

}  // namespace lockstep::tracking
