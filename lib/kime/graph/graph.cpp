#include "kime/graph/graph.h"

namespace kime {

namespace {

struct UsesOf {
  Uses operator()(const Embed& op) const { return {{}, op.out, false}; }
  Uses operator()(const LayerNorm& op) const { return {{op.in}, op.out, op.in == op.out}; }
  Uses operator()(const Gemm& op) const { return {{op.in}, op.out, op.accumulate}; }
  Uses operator()(const Attention& op) const { return {{op.q, op.k, op.v}, op.out, false}; }
  Uses operator()(const GatherPicks& op) const { return {{op.in}, op.out, false}; }
  Uses operator()(const GatherMarkers& op) const { return {{op.in}, op.out, false}; }
  Uses operator()(const AddType& op) const { return {{op.value}, op.value, true}; }
  Uses operator()(const ActFeatures& op) const { return {{op.hidden, op.logits}, op.out, false}; }
};

}  // namespace

Uses uses(const Op& op) {
  return std::visit(UsesOf{}, op);
}

}  // namespace kime
