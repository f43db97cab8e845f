// What the CPU can run, asked before anything is built.
#pragma once

#include "kime/base/error.h"
#include "kime/base/tensor.h"
#include "kime/graph/graph.h"

namespace kime::cpu {

/// That the tensors are the graph's weights, and that the kernels run every op of it: sizes agree, so that nothing below checks again.
/// Errors: `unsupported`, naming the weight or the op and the numbers.
[[nodiscard]] Status check(const Graph& graph, const TensorSource& tensors);

}  // namespace kime::cpu
