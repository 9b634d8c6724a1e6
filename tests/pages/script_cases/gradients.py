"""The scripts of Gradients: what each is given, and what it prints."""

CASES = {
    "gradient_graph": (
        ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, False, True, ("pred_y",)),
        ["w.grad by hand (1.0, 2.0, 3.0)", "w: value (1.0, 1.0, 1.0), .grad (1.0, 2.0, 3.0)", "loss.grad is None"],
    ),
    "finite_differences": (
        ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, "square", "forward", "fp64"),
        ["gradient (1.0, 2.0, 3.0)", "h = 1.0e-08", "best step: predicted 2.38"],
    ),
    "accumulated_gradients": (((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, 3), ["w.grad = (3.0, 6.0, 9.0)"]),
    "cleared_gradients": (((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), 5.0, False), ["w.grad = (0.0, 0.0, 0.0)"]),
    "backward_flops": ((1024, 256, 64, False, 1), ["336 MFLOP", "201 MFLOP", "skipped: nobody needs it"]),
    "backward_time": ((64, 32, 8, 1, False, 1), ["forward", "backward predicted", "unexplained", "FLOPs 1.20x"]),
}
