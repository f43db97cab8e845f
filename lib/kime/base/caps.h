// What a backend can do.
#pragma once

#include <cstddef>
#include <string_view>

namespace kime {

struct Caps {
  std::string_view name;        ///< "cpu" or "cuda"; static storage.
  std::size_t threads = 1;      ///< Worker threads, for the CPU.
  bool graphs = false;          ///< Plans are captured device graphs, so that padding to the bucket costs time.
  bool unified_memory = false;  ///< Host and device share memory, so that weights are not copied.
};

}  // namespace kime
