"""The network of ``two_layers`` with data: its passes, and the pieces they are made of, each as one call to be timed.

Shapes: B rows, D features in every hidden layer, K outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class Network:
    """Tensors in fp32 on the CPU, made once; every method runs one pass or one piece and keeps nothing.

    The pieces work on tensors of their own, which no graph knows; ``forward_matmuls`` and ``backward_matmuls`` write
    each product where the same product is already, so that they allocate nothing and change no value.

    >>> network = Network(4, 3, 2, num_layers=1, x_requires_grad=False)
    >>> [tuple(gradient.shape) for gradient in network.backward()]
    [(3, 3), (3, 2)]
    """

    def __init__(self, b: int, d: int, k: int, num_layers: int, x_requires_grad: bool) -> None:
        import torch

        generator = torch.Generator().manual_seed(0)
        self.x_BD = torch.randn(b, d, generator=generator).requires_grad_(x_requires_grad)
        shapes = [(d, d)] * num_layers + [(d, k)]
        self.weights = [(torch.randn(shape, generator=generator) / d**0.5).requires_grad_() for shape in shapes]
        self.wanted = [*self.weights, *([self.x_BD] if x_requires_grad else [])]
        self.kept_graph = self.forward()
        self._make_pieces(x_requires_grad)

    def _make_pieces(self, x_requires_grad: bool) -> None:
        """(left, right, product) of each multiplication, and the loss on a leaf of its own."""
        import torch

        Product = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
        plain = [weight.detach() for weight in self.weights]
        h = [self.x_BD.detach()]
        for weight in plain:
            h.append(h[-1] @ weight)
        self.forward_products: list[Product] = list(zip(h[:-1], plain, h[1:], strict=True))
        self.output_BK = h[-1].clone().requires_grad_()
        self.kept_loss = self.output_BK.pow(2).mean()
        (grad,) = torch.autograd.grad(self.kept_loss, self.output_BK, retain_graph=True)
        self.backward_products: list[Product] = []
        for layer in reversed(range(len(plain))):
            self.backward_products.append((h[layer].T, grad, h[layer].T @ grad))
            if layer > 0 or x_requires_grad:
                below = grad @ plain[layer].T
                self.backward_products.append((grad, plain[layer].T, below))
                grad = below

    def forward(self) -> torch.Tensor:
        """The loss, with its graph."""
        h = self.x_BD
        for weight in self.weights:
            h = h @ weight
        return h.pow(2).mean()

    def backward(self) -> tuple[torch.Tensor, ...]:
        """Every gradient wanted, through the graph that is kept, into new tensors."""
        import torch

        return torch.autograd.grad(self.kept_graph, self.wanted, retain_graph=True)

    def step(self) -> tuple[torch.Tensor, ...]:
        """Forward and backward through a new graph, which is then freed."""
        import torch

        return torch.autograd.grad(self.forward(), self.wanted)

    def forward_matmuls(self) -> None:
        """Forward's multiplications, into the tensors that hold their results."""
        _multiply_into(self.forward_products)

    def backward_matmuls(self) -> None:
        """Backward's multiplications, into the tensors that hold their results."""
        _multiply_into(self.backward_products)

    def new_forward_matmuls(self) -> list[torch.Tensor]:
        """Forward's multiplications, into new tensors."""
        return [left @ right for left, right, _product in self.forward_products]

    def new_backward_matmuls(self) -> list[torch.Tensor]:
        """Backward's multiplications, into new tensors."""
        return [left @ right for left, right, _product in self.backward_products]

    def loss(self) -> torch.Tensor:
        """The mean of squares on the network's output, with its graph."""
        return self.output_BK.pow(2).mean()

    def loss_backward(self) -> tuple[torch.Tensor, ...]:
        """The gradient of the mean of squares alone, through a graph that is kept."""
        import torch

        return torch.autograd.grad(self.kept_loss, self.output_BK, retain_graph=True)


def _multiply_into(products: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> None:
    import torch

    for left, right, product in products:
        torch.mm(left, right, out=product)
