// What a backend can do.
#pragma once

#include <cstddef>
#include <string_view>

namespace kime {

struct Caps {
  std::string_view name;        ///< "cpu" or "cuda"; static storage.
  std::size_t threads = 1;      ///< Worker threads, for the CPU.
  bool graphs = false;          ///< Plans are captured device graphs: batches that fill the device pay.
  bool unified_memory = false;  ///< Host and device share memory, so that weights are not copied.
  /// Products run over the whole bucket, not over the rows that there are: what lies between them costs time, and counts as padding.
  bool padded_products = false;
};

}  // namespace kime
