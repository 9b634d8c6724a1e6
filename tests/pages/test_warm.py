"""What the server prepares in the background."""

import torch

from pages._ui import warm


def test_pages_compute_on_one_thread():
    """Visitors' small computations run side by side; measurements have processes of their own."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        warm.load_torch()
        assert warm.torch_is_here()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
