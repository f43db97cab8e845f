// The safetensors format (https://github.com/huggingface/safetensors, "Format"): 8 bytes, little endian, the length of a JSON header; the
// header; the tensors' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/error.h"
#include "kime/model/file.h"

namespace kime {

/// One entry of a header. `begin` counts from the start of the file, and the bytes are within it.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< As the header has it: "F32", "BF16", "I64", ...
  std::vector<std::size_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

/// An open file whose header has been read and found to hold.
class Safetensors {
 public:
  /// Takes a file and reads its header, no stricter and no laxer than the format: the header is at most 100 MB, one JSON object from its
  /// first byte on; no name stands twice; each tensor has a known dtype and as many bytes as its shape asks for; together they cover what
  /// is behind the header exactly, without holes, overlaps or bytes to spare.
  /// Errors: `input`, naming the file, and the tensor where there is one.
  static Result<Safetensors> open(File file);

  /// In the order of their bytes.
  [[nodiscard]] std::span<const SafetensorsEntry> entries() const { return entries_; }
  [[nodiscard]] const File& file() const { return file_; }

  /// Copies bytes [offset, offset + out.size()) of a tensor. From any number of threads.
  /// Errors: `input`, naming file and tensor, when that is past the tensor, or the file fails.
  Status read(const SafetensorsEntry& entry, std::uint64_t offset, std::span<std::byte> out) const;

 private:
  File file_;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace kime
