#include "kime/backend/cuda/graphs.h"

#include <algorithm>

namespace kime::cuda {

GraphExec::~GraphExec() {
  if (context_->bind()) {
    static_cast<void>(context_->api().graph_exec_destroy(handle_));
  }
}

std::uint64_t Graphs::new_owner() {
  const std::lock_guard lock(mutex_);
  return ++owners_;
}

std::shared_ptr<GraphExec> Graphs::find(std::uint64_t owner, const LaunchAddresses& addresses) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.owner == owner && entry.addresses == addresses; });
  if (found == entries_.end()) {
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found);
  return found->exec;
}

Result<std::shared_ptr<GraphExec>> Graphs::add(std::uint64_t owner, const LaunchAddresses& addresses, GraphHandle graph) {
  for (;;) {
    GraphExecHandle handle = nullptr;
    const Code code = context_->api().graph_instantiate(&handle, graph, 0);
    if (code == Code::success) {
      auto exec = std::make_shared<GraphExec>(context_, handle);
      const std::lock_guard lock(mutex_);
      entries_.push_front({owner, addresses, exec});
      return exec;
    }
    if (code != Code::out_of_memory) {
      return context_->check("cuGraphInstantiateWithFlags", code).error();
    }
    if (!evict()) {
      return std::shared_ptr<GraphExec>();
    }
  }
}

void Graphs::forget(std::uint64_t owner) {
  std::list<Entry> gone;  // ends without the lock
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->owner == owner) {
      gone.splice(gone.end(), entries_, entry);
    }
    entry = next;
  }
}

bool Graphs::evict() {
  std::list<Entry> gone;  // ends without the lock
  const std::lock_guard lock(mutex_);
  if (entries_.empty()) {
    return false;
  }
  gone.splice(gone.end(), entries_, std::prev(entries_.end()));
  ++evicted_;
  return true;
}

std::size_t Graphs::size() {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t Graphs::evicted() {
  const std::lock_guard lock(mutex_);
  return evicted_;
}

}  // namespace kime::cuda
