import torch
from torch import Tensor


def hilbert_key(pos: Tensor, bits: int = 10) -> Tensor:
    """Where points lie along the Hilbert curve through their bounding box: [..., M, D] -> [..., M] integers.

    The transform is Skilling's ("Programming the Hilbert curve", 2004), with ``bits`` digits an axis, 63 in all. Points
    that differ by rounding only lie at the same place.

    >>> corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> hilbert_key(corners, bits=1)  # around three sides of the square
    tensor([0, 3, 1, 2])
    """
    lower, upper = pos.amin(-2, keepdim=True), pos.amax(-2, keepdim=True)
    noise = 2 ** (bits + 3) * torch.finfo(pos.dtype).eps * torch.maximum(lower.abs(), upper.abs())
    extent = torch.maximum(upper - lower, noise).amax(-1, keepdim=True).clamp_min(torch.finfo(pos.dtype).tiny)
    axes = list(((pos - lower) / extent * (2**bits - 1)).round().long().unbind(-1))
    for bit in range(bits - 1, 0, -1):  # undo the reflections and rotations of the quadrants
        low = (1 << bit) - 1
        for i in range(len(axes)):
            set_ = (axes[i] >> bit & 1).bool()
            swap = torch.where(set_, 0, (axes[0] ^ axes[i]) & low)
            axes[0] = torch.where(set_, axes[0] ^ low, axes[0] ^ swap)
            axes[i] = axes[i] ^ swap if i else axes[0]
    for i in range(1, len(axes)):  # Gray code
        axes[i] = axes[i] ^ axes[i - 1]
    flip = torch.zeros_like(axes[0])
    for bit in range(bits - 1, 0, -1):
        flip = torch.where((axes[-1] >> bit & 1).bool(), flip ^ ((1 << bit) - 1), flip)
    key = torch.zeros_like(flip)
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            key = key << 1 | (axis ^ flip) >> bit & 1
    return key
