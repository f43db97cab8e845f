#include "kime/runtime/context.h"

namespace kime {

std::string_view to_string(Node node) {
  constexpr std::array<std::string_view, kNodes> kNames = {"weights", "arena", "inputs", "outputs", "collected"};
  return kNames[static_cast<std::size_t>(node)];
}

std::string_view to_string(MergeUse use) {
  constexpr std::array<std::string_view, 3> kNames = {"no", "copy", "streaming"};
  return kNames[static_cast<std::size_t>(use)];
}

std::optional<Buffer> ContextState::find(Node node) {
  for (ContextState* state = this; state != nullptr; state = state->parent.get()) {
    const std::lock_guard lock(state->mutex);
    if (const auto& buffer = state->buffers[static_cast<std::size_t>(node)]) {
      return buffer;
    }
  }
  return std::nullopt;
}

ContextState* ContextState::holder(Node node) {
  for (ContextState* state = this; state != nullptr; state = state->parent.get()) {
    const std::lock_guard lock(state->mutex);
    if (state->buffers[static_cast<std::size_t>(node)]) {
      return state;
    }
  }
  return nullptr;
}

}  // namespace kime
