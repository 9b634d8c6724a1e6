"""A step on a GPU: the live storages of the meter, and what torch's caching allocator takes for them."""

from __future__ import annotations

from dataclasses import replace

import torch

from core import units
from core.claims import Term
from core.memory import steps, subjects
from core.memory.config import StepConfig
from core.memory.measure import activation_terms, conditions
from core.memory.predict import predict_step
from core.memory.step_memory import StepMemory
from core.words import _


def measure_on_cuda(config: StepConfig, device: str) -> StepMemory:
    """Two steps as they are, whose second's peak the allocator tells, then two under the meter for the timeline.

    ``allocator_terms`` adds up to what is taken of the device at the peak: what tensors ask for, cuBLAS's workspace,
    blocks rounded up to 512 B, memory reserved and not in use (fragmentation), and the context. The meter makes
    autograd add gradients into new tensors, so the allocator's own peak may be lower than the timeline's. Raises
    ValueError where there is no such device, or the step does not fit its free memory.
    """
    if not device.startswith("cuda") or not torch.cuda.is_available():
        raise ValueError(_("there is no device {device} here").format(device=device[:40]))
    where = _torch_device(device)
    free, total = torch.cuda.mem_get_info(where)
    asked = predict_step(config).peak_bytes
    if asked > free:
        message = _("this step takes {asked}; {free} are free on {device}")
        texts = {"asked": units.si_bytes(asked), "free": units.si_bytes(free), "device": device}
        raise ValueError(message.format(**texts))
    allocator = _allocator_terms(config, where, total)
    subject, trainers, tokens, labels = _made(config, where)
    micro_batches, autocast = min(2, config.accumulation_steps), config.precision == "autocast"
    moments = steps.metered_steps(subject, trainers, tokens, labels, micro_batches, autocast)
    told = replace(
        conditions(config.precision, True, [config.num_layers]),
        device=device,
        device_name=torch.cuda.get_device_name(where),
    )
    return StepMemory(
        config.num_layers,
        moments,
        activation_terms(moments),
        allocator_terms=allocator,
        config=config,
        conditions=told,
    )


def _torch_device(name: str) -> torch.device:
    return torch.device(name)


def _made(
    config: StepConfig, where: torch.device
) -> tuple[subjects.Subject, list[torch.optim.Optimizer], torch.Tensor, torch.Tensor]:
    with where, subjects.quiet():
        subject = subjects.of(config)
        tokens, labels = (torch.zeros(config.batch_size, config.seq_len, dtype=torch.long) for _input in range(2))
    return subject, subjects.optimizers(config, subject.model), tokens, labels


def _allocator_terms(config: StepConfig, where: torch.device, total: int) -> tuple[Term, ...]:
    subject, trainers, tokens, labels = _made(config, where)
    for _step in range(2):
        torch.cuda.synchronize(where)
        torch.cuda.reset_peak_memory_stats(where)
        for _micro_batch in range(min(2, config.accumulation_steps)):  # all after the first are alike
            with torch.autocast(where.type, torch.bfloat16, enabled=config.precision == "autocast"):
                loss = subject.loss(tokens, labels)
            loss.backward()  # type: ignore[no-untyped-call]
            del loss
        for trainer in trainers:
            trainer.step()
            trainer.zero_grad(set_to_none=True)
    torch.cuda.synchronize(where)
    stats = torch.cuda.memory_stats(where)
    requested, allocated, reserved = (
        int(stats[f"{name}_bytes.all.peak"]) for name in ("requested", "allocated", "reserved")
    )
    context = total - torch.cuda.mem_get_info(where)[0] - int(stats["reserved_bytes.all.current"])
    workspace = _workspace_bytes(where)
    del subject, trainers, tokens, labels
    torch.cuda.empty_cache()
    return (
        Term(_("tensors"), requested - workspace, _("what they ask for at the peak")),
        Term(_("cuBLAS's workspace"), workspace, _("made with the first matrix product, and kept")),
        Term(_("rounding"), allocated - requested, _("blocks are multiples of 512 B")),
        Term(_("fragmentation"), reserved - allocated, _("reserved and not in use at the peak")),
        Term(_("context"), context, _("CUDA, its kernels, and whatever else is on the device")),
    )


def _workspace_bytes(where: torch.device) -> int:
    """What cuBLAS holds in the allocator: it is let go of, and made again with the next product."""
    before = int(torch.cuda.memory_stats(where)["requested_bytes.all.current"])
    torch._C._cuda_clearCublasWorkspaces()
    return before - int(torch.cuda.memory_stats(where)["requested_bytes.all.current"])
