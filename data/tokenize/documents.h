// The documents of text files: what a language model must not take for one text. No LibTorch.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

enum class DocumentKind { File, Line, Paragraph };  // paragraphs are parted by empty lines

// Calls `use` with each document of `files`, plain or compressed with gzip or zstd, in order; empty
// ones are none. Throws Config: no such file, or, with `utf8`, a binary format or bytes that are
// not UTF-8 text, naming file and byte; Environment when a file cannot be read.
void for_each_document(const std::vector<std::filesystem::path>& files, DocumentKind kind,
                       bool utf8, const std::function<void(std::string_view)>& use);

}  // namespace lockstep::data
