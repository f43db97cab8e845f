// Counts what this test binary asks the system for memory: new, malloc and its kin, aligned allocation and mmap, on every thread.
#pragma once

#include <cstddef>

namespace kime::test {

/// Whether anything is counted: sanitizers bring an allocator of their own, which is left alone.
[[nodiscard]] bool counts_allocations();

/// How many times memory has been asked for so far.
[[nodiscard]] std::size_t allocations();

}  // namespace kime::test
