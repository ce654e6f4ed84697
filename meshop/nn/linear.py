from torch import nn


class Linear(nn.Linear):
    r""":class:`torch.nn.Linear` with the initialisation of the Transolver family.

    Weights are normal with standard deviation 0.02, truncated at :math:`\pm 2`; the bias is zero. The authors' models
    apply it to every linear map (it overwrites the orthogonal one that their slice projection announces).

    >>> Linear(2, 3).bias.tolist()
    [0.0, 0.0, 0.0]
    """

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.weight, std=0.02)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
