#!/usr/bin/env python3
"""Scores records with the reference package's model in PyTorch on the CPU; --bf16 under autocast."""
import torch

from common import arguments, load_model, measure


def main():
    parser = arguments(__doc__)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    model = load_model(options.model)

    def score(inputs):
        tensors = [torch.from_numpy(array) for array in inputs]
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
            return [tensor.float().numpy() for tensor in model(*tensors)]

    measure(options, score)


main()
