"""Training on PyTorch Lightning: :class:`Surrogate`, :class:`Recipe`, :func:`fit` and :func:`evaluate`.

:func:`lead_errors` evaluates rollouts frame by frame.
"""

from __future__ import annotations

import copy
import csv
import logging
import os
import platform
import resource
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from pytorch_lightning.callbacks import EarlyStopping, EMAWeightAveraging, ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.strategies import DDPStrategy, ModelParallelStrategy
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.data import Sampler
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import BaseTransform, Compose

import meshop
from meshop.checkpoint import build, describe, read_checkpoint, rebuildable
from meshop.chunks import CHUNK, call_in_chunks, can_be_cut
from meshop.data import FieldSpec, InputError, MeshData, in_plane_axes
from meshop.domain import Partitioned, cut, domain_parallel, exchange_halos
from meshop.io.child import free_memory
from meshop.io.files import alone, whole
from meshop.launch import processes
from meshop.metrics import pearson, relative_h1, relative_l2, rmse
from meshop.nn import Normalizer, call, checkpoint_activations
from meshop.rollout import Call, Rollout, Stepper
from meshop.transforms import Markers

log = logging.getLogger("meshop")

Strategy = Literal["ddp", "fsdp", "domain"]


@dataclass(frozen=True)
class Recipe:
    """How a surrogate is trained: AdamW, one learning-rate cycle over all steps, relative L2 loss.

    Args:
        epochs: passes over the training set.
        batch_size: meshes in one step, of all processes together.
        lr: peak learning rate of the cycle.
        weight_decay: of AdamW.
        clip: largest norm of the gradient; 0 does not clip.
        h1: factor of the relative error of the slopes along edges, which is added to the loss; 0 leaves it out.
        accumulate: batches whose gradients are averaged into one step.
        ema: decay of an exponential moving average of the weights, which is then what is validated, saved and used.
        patience: stop after this many epochs without a better validation loss.
        activation_checkpointing: whether blocks keep their inputs alone for the backward pass and compute the rest
            again (:func:`meshop.nn.checkpoint_activations`): several times less memory, a third more time.
        precision: ``32``, or ``bf16-mixed`` and ``16-mixed`` for autocast (sums over nodes stay float32).
        seed: of the initial weights, the order of the meshes and dropout.
    """

    epochs: int = 100
    batch_size: int = 1
    lr: float = 1e-3
    weight_decay: float = 1e-5
    clip: float = 1.0
    h1: float = 0.0
    accumulate: int = 1
    ema: float | None = None
    patience: int | None = None
    activation_checkpointing: bool = False
    precision: Literal["32", "bf16-mixed", "16-mixed"] = "32"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate"):
            if getattr(self, name) < 1:
                raise InputError(f"Expected --{name} of at least 1 (got {getattr(self, name)})")
        if self.h1 < 0:
            raise InputError(f"Expected --h1 of at least 0 (got {self.h1})")
        if self.ema is not None and not 0 < self.ema < 1:
            raise InputError(f"Expected --ema between 0 and 1, 0.999 say (got {self.ema})")


class Surrogate(pl.LightningModule):
    r"""A model together with all that turns a raw mesh into its input and its output into named fields.

    .. math::
        \hat y = \sigma_y\, f\Big(\frac{[x \,|\, p] - \mu_x}{\sigma_x}\Big) + \mu_y

    with :math:`x` the packed node fields, :math:`p` the graph's parameters at each of its nodes, and means and
    deviations of the training set. The loss is the relative L2 error in physical units, one term a field:

    .. math::
        \mathcal L = \frac1{|F|}\sum_{f \in F} \frac1B \sum_{b=1}^{B}
        \frac{\lVert \hat y_{b,f} - y_{b,f}\rVert_2}{\lVert y_{b,f}\rVert_2}

    With ``recipe.h1`` :func:`meshop.metrics.relative_h1` of each field, times that factor, is added to each term.

    With a ``rollout`` the model is one call of it: it has k C outputs a node, k frames of C components, and the
    surrogate maps the inputs of a window to its targets by as many calls as it takes. All frames of a component share
    their mean and deviation. The loss is the mean over the calls that are learnt from.

    Args:
        model: any module that :func:`meshop.nn.call` can call, with ``spec.in_channels`` inputs and
            ``spec.out_channels`` outputs a node: meshop's models and PyG's alike.
        spec: which fields enter and leave.
        transform: what builds the graph of a raw mesh (edges, measure); applied to new files by :meth:`prepare`.
        recipe: how it is trained.
        description: how to build the model (:func:`meshop.checkpoint.describe`), when its attributes do not tell.
        rollout: how the model is carried through time; without it, one call gives all targets.
    """

    def __init__(
        self,
        model: nn.Module,
        spec: FieldSpec,
        transform: BaseTransform | None = None,
        recipe: Recipe | None = None,
        description: dict[str, Any] | None = None,
        rollout: Rollout | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.spec = spec
        self.recipe = recipe or Recipe()
        self.stepper = None if rollout is None else Stepper(spec, rollout)
        self.x_norm = Normalizer(spec.in_channels)
        self.y_norm = Normalizer(spec.out_channels if self.stepper is None else self.stepper.channels)
        self.transform = transform
        self.chunk: int | None = None  # nodes that go through the model together, where not all do
        self.rank, self.ranks = 0, 1
        self.shares_meshes = False
        self._origin = {
            "model": rebuildable(model, description),
            "model_class": f"{type(model).__module__}.{type(model).__qualname__}",
            "transform": None if transform is None else describe(transform),
        }

    def _features(self, data: Data) -> Tensor:
        if not self.spec.params:
            return data.x
        batch = data.batch if data.batch is not None else data.x.new_zeros(data.x.size(0), dtype=torch.long)
        return torch.cat([data.x, data.params[batch]], dim=1)  # [N, F + P]

    def forward(self, data: Data) -> Tensor:
        """Predict the packed targets [N, T] of a mesh or a batch, in physical units."""
        return self.call(data) if self.stepper is None else self.stepper.window(self.call, data)

    def call(self, data: Data) -> Tensor:
        """The model in physical units: all targets [N, T], or with a rollout the frames [N, k, C] of a call."""
        data, fields = data.__copy__(), data.x.size(1)
        data.x = self.x_norm(self._features(data))
        if self.spec.params:  # for models that take them beside x
            data.params = self.x_norm(pad(data.params, (fields, 0)))[:, fields:]
        whole = torch.is_grad_enabled() or self.chunk is None or data.num_nodes <= self.chunk
        out = (call(self.model, data) if whole else call_in_chunks(self.model, data, self.chunk or CHUNK)).float()
        return self.y_norm.inverse(out if self.stepper is None else out.unflatten(1, (-1, self.stepper.channels)))

    def mean(self, data: Data) -> Tensor:
        """The mean of the training set as a prediction [N, T]; with a rollout, of the frames of its histories."""
        if self.stepper is None:
            return self.y_norm.mean.expand(data.x.size(0), -1)
        frame = self.stepper.history(self.x_norm.mean[None])[:, -1:]
        return self.stepper.pack(frame.expand(data.x.size(0), self.stepper.T_out, -1))

    def set_windows(self, spec: FieldSpec) -> None:
        """Predict from now on as many frames as the windows of this specification have, by more or fewer calls.

        Raises:
            InputError: the model has no rollout, or the windows are not of the fields that it was trained on.
        """
        if self.stepper is None:
            raise InputError("Expected a model with a rollout (got one that predicts all its frames in one call)")
        stepper = Stepper(spec, self.stepper.rollout)
        ours, theirs = (
            (s.spec.inputs, s.spec.params, s.spec.dim, s.spec.position, s.names, s.components)
            for s in (self.stepper, stepper)
        )
        if ours != theirs:
            raise InputError(f"The model was trained on windows of {_text(self.spec)} (got {_text(spec)})")
        self.spec, self.stepper = spec, stepper

    def errors(self, data: Data, prediction: Tensor | None = None) -> dict[str, Tensor]:
        """Relative L2 error of each field and graph: ``{field: [B]}``."""
        prediction = self(data) if prediction is None else prediction
        batch = data.batch if "batch" in data else None
        size = data.num_graphs if "batch" in data else 1
        return {name: relative_l2(p, y, batch=batch, batch_size=size) for name, p, y in self._fields(data, prediction)}

    def _fields(self, data: Data, prediction: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
        truth = self.spec.unpack(data.y)
        yield from ((name, p, truth[name]) for name, p in self.spec.unpack(prediction).items())

    def share_meshes(self, rank: int, ranks: int) -> None:
        """From now on see one part of every mesh, of as many as there are processes (:mod:`meshop.domain`).

        Raises:
            InputError: the model has a layer whose nodes cannot be on several processes.
        """
        exchange_halos(self.model)
        self.rank, self.ranks, self.shares_meshes = rank, ranks, True

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int = 0) -> Any:
        return cut(batch, self.rank, self.ranks) if self.shares_meshes else batch

    def together(self, batch: Data) -> AbstractContextManager[None]:
        """The context of what is computed on a batch: alone, or with the processes that have its other parts."""
        return domain_parallel(torch.distributed.group.WORLD, batch.halo) if self.shares_meshes else nullcontext()

    def configure_model(self) -> None:
        if isinstance(self.trainer.strategy, ModelParallelStrategy):
            _shard(self.model, self.device_mesh["data_parallel"])  # type: ignore[index]

    def training_step(self, batch: Data, batch_idx: int) -> Tensor:
        share, size = (1.0, batch.num_graphs)
        if self._trainer is not None:
            share, size = _deal(self.trainer.train_dataloader).share(batch_idx)
        with self.together(batch):
            loss = share * torch.stack([self._loss(batch, p, y) for p, y in self._lessons(batch)]).mean()
        if not bool(loss.isfinite()):
            cases = ", ".join(batch.name) if "name" in batch else "one of its meshes"
            raise InputError(
                f"The loss became {loss.item()} at step {self.global_step} of epoch {self.current_epoch} ({cases}); "
                "lower --lr, raise --clip towards 1 or train with --precision 32"
            )
        self._log("train_loss", loss.detach(), size, prog_bar=True)
        return loss

    def _log(self, name: str, value: Tensor, size: int, prog_bar: bool = False) -> None:
        """Log the mean over the processes of a batch of some size, for the mean over the meshes of an epoch."""
        several = self.ranks > 1
        self.log(name, value, prog_bar, on_step=False, on_epoch=True, sync_dist=several, batch_size=size)

    def _lessons(self, batch: Data) -> Iterator[tuple[Tensor, Tensor]]:
        """Pairs of a predicted field and the true one."""
        if self.stepper is None:
            yield from ((p, y) for _, p, y in self._fields(batch, self(batch)))
            return
        progress = self.current_epoch / self.recipe.epochs
        for frames, truth in self.stepper.lessons(self.call, batch, progress, self.x_norm.std):
            yield from zip(self.stepper.split(frames).values(), self.stepper.split(truth).values(), strict=True)

    def _loss(self, batch: Data, p: Tensor, y: Tensor) -> Tensor:
        loss = relative_l2(p, y, batch=batch.batch, batch_size=batch.num_graphs).mean()
        if not self.recipe.h1:
            return loss
        if "edge_index" not in batch:
            raise InputError("--h1 needs edges, along which it takes slopes; --knn 8 makes some")
        slopes = relative_h1(p, y, batch.pos, batch.edge_index, batch.batch, batch.num_graphs)
        return loss + self.recipe.h1 * slopes.mean()

    def validation_step(self, batch: Data, batch_idx: int) -> None:
        share, size = _deal(self.trainer.val_dataloaders).share(batch_idx)
        with self.together(batch):
            errors = {name: share * error.mean() for name, error in self.errors(batch).items()}
        for name, error in errors.items():
            self._log(f"val_{name}", error, size)
        self._log("val_loss", torch.stack(list(errors.values())).mean(), size, prog_bar=True)

    def configure_optimizers(self) -> Any:
        recipe = self.recipe
        fused = recipe.precision == "32"  # Lightning clips no gradients of mixed precision for a fused one
        optimizer = torch.optim.AdamW(self.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay, fused=fused)
        steps = int(self.trainer.estimated_stepping_batches)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=self.recipe.lr, total_steps=max(steps, 2))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": cycle, "interval": "step"}}

    def on_train_epoch_start(self) -> None:
        # Dropout of an epoch depends on the seed and the epoch alone, so that a resumed run repeats it.
        torch.manual_seed(self.recipe.seed + 1_000_003 * (self.current_epoch + 1) + self.rank)

    def fit_normalizers(self, data: Sequence[Data]) -> None:
        """Set the means and deviations from the packed meshes of a training set."""
        for mesh in data:
            self.x_norm.fit(self._features(mesh))
            self.y_norm.fit(mesh.y if self.stepper is None else self.stepper.samples(mesh))
        if self.stepper is not None:
            self.x_norm.mean, self.x_norm.std = self.stepper.pooled(self.x_norm.mean, self.x_norm.std)

    def prepare(self, mesh: MeshData, where: str = "the mesh", targets: bool = False) -> MeshData:
        """Build the graph of a raw mesh and pack its fields, as was done for the training set."""
        if mesh.dim != self.spec.dim:
            raise InputError(f"The checkpoint was trained on {self.spec.dim}-D meshes; {where} is {mesh.dim}-D")
        for transform in self.transform.transforms if isinstance(self.transform, Compose) else [self.transform]:
            for name in transform.absent(mesh) if isinstance(transform, Markers) else []:
                log.warning("'%s' is not in %s; it marks nothing there", name, where)
        return self.spec.pack(self.transform(mesh) if self.transform else mesh, where, targets)

    @torch.inference_mode()
    def predict(self, data: MeshData, chunk: int | Literal["auto"] | None = "auto") -> MeshData:
        """Predict on a prepared mesh and return it with the field ``p_pred`` for each target ``p``.

        A mesh that may not fit into memory goes through the model in chunks of its nodes
        (:func:`meshop.chunks.call_in_chunks`), which takes longer and says the same.

        Args:
            data: the mesh.
            chunk: nodes of a chunk; ``None`` for all at once; by default all where they are estimated to need less than
                half of the memory that is free, or the model cannot be cut.

        Where the truth is known there is also the signed error ``p_error``, prediction minus truth. The file's own
        arrays stay as they are. Vectors of a plane have three components again, like the file's.
        """
        training, device = self.training, data.pos.device
        self.eval()
        self.chunk = (CHUNK if self._is_large(data) else None) if chunk == "auto" else chunk
        try:
            prediction = self(data.to(self.device)).to(device)
        finally:
            self.chunk = None
            self.train(training)
        truth = self.spec.unpack(data.y.to(device)) if "y" in data else {}
        return self.on_mesh(data.to(device), self.spec.unpack(prediction), truth)

    def _is_large(self, data: Data) -> bool:
        """Whether a call may need more than half of the free memory: four times its widest layer at each node."""
        widths = [m.weight.shape[0] for m in self.model.modules() if isinstance(m, nn.Linear)]
        bytes_ = 16 * max(widths, default=0) * int(data.num_nodes)
        cuda = self.device.type == "cuda"
        free = torch.cuda.mem_get_info(self.device)[0] if cuda else free_memory()
        return bytes_ > 0.5 * free and can_be_cut(self.model, data, known=True)

    def on_mesh(self, data: MeshData, prediction: dict[str, Tensor], truth: dict[str, Tensor]) -> MeshData:
        """A mesh with the fields ``p_pred`` of a prediction and, where the truth is known, ``p`` and ``p_error``."""
        out: MeshData = data.__copy__()
        key = "point_data" if self.spec.location == "point" else "cell_data"
        arrays = out[key].__copy__()
        windows = {f"{field.name.removesuffix('_in')}_out" for field in self.spec.inputs if field.name.endswith("_in")}
        for name, value in prediction.items():
            spatial = out.dim == 2 and value.dim() == 2
            spatial = spatial and (arrays[name].size(1) == 3 if name in arrays else name not in windows)
            arrays[f"{name}_pred"] = _in_space(value, out.points) if spatial else value
            if name in truth:
                error = value - truth[name]
                arrays[f"{name}_error"] = _in_space(error, out.points) if spatial else error
                if name not in arrays:
                    arrays[name] = _in_space(truth[name], out.points) if spatial else truth[name]
        out[key] = arrays
        return out

    @torch.inference_mode()
    def rollout(self, data: Data, steps: int, truth: Tensor | None = None) -> Iterator[dict[str, Tensor]]:
        """Predict frame after frame from the history of a packed window; memory does not grow with the steps.

        Args:
            data: a window or a batch of windows on different meshes.
            steps: frames to predict.
            truth: frames [N, T, C] that follow the history, from which forced nodes are set as far as they go; those
                of the window by default.

        Yields:
            Each field of a frame in physical units, [N] or [N, components].

        Raises:
            InputError: the model has no rollout; a field is no longer finite, after the frames before.
        """
        if self.stepper is None:
            raise InputError("Expected a model with a rollout (got one that predicts all its frames in one call)")
        self.eval()
        data = data.to(self.device)
        if truth is None and "y" in data:
            truth = self.stepper.truth(data.y)
        calls = self.stepper.march(self.call, data, truth)
        frames = chain.from_iterable(block.unbind(1) for block in calls)
        for number, frame in enumerate(islice(frames, steps), start=1):
            fields = self.stepper.split(frame)
            for name, value in fields.items():
                if count := int((~value.isfinite()).any(-1).sum()):
                    raise InputError(
                        f"Step {number} of the rollout is not finite: {name} at {count} of {len(value)} nodes"
                    )
            yield {name: value.squeeze(1) if value.size(1) == 1 else value for name, value in fields.items()}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["meshop"] = {
            "format": 1,
            **self._origin,
            "spec": self.spec.to_dict(),
            "recipe": asdict(self.recipe),
            "rollout": None if self.stepper is None else asdict(self.stepper.rollout),
            "versions": versions(),
        }

    @classmethod
    def load(cls, path: str | Path, model: nn.Module | None = None) -> Surrogate:
        """Load a checkpoint of :func:`fit`; nothing in it is executed.

        Args:
            path: a ``.ckpt`` file.
            model: the architecture, only needed when the checkpoint could not describe it.
        """
        state = read_checkpoint(path)
        about = state["meshop"]
        if model is None:
            if about["model"] is None:
                raise InputError(
                    f"{path} holds a {about['model_class']}, which cannot be built from its attributes; pass model="
                )
            model = build(about["model"])
        transform = None if about["transform"] is None else build(about["transform"])
        rollout = Rollout(**about["rollout"]) if about.get("rollout") else None
        surrogate = cls(model, FieldSpec.from_dict(about["spec"]), transform, Recipe(**about["recipe"]), None, rollout)
        try:
            surrogate.load_state_dict(state["state_dict"])
        except RuntimeError as error:
            raise InputError(f"The weights in {path} do not fit {type(model).__name__}: {error}") from error
        return surrogate.eval()


class Shuffle(Sampler[int]):
    """A new order every epoch that depends on the seed and the epoch alone, so that a resumed run repeats it."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed, self.epoch = size, seed, 0

    def set_epoch(self, epoch: int) -> None:  # called by Lightning
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + 1_000_003 * (self.epoch + 1))
        yield from torch.randperm(self.size, generator=generator).tolist()

    def __len__(self) -> int:
        return self.size


class Deal(Sampler[list[int]]):
    """The batches of one process: the meshes of every batch are dealt out to all.

    One that gets none in a batch of fewer meshes than processes takes the first for company, and weighs it nothing. So
    all take equally many steps, no mesh counts twice, and the mean over the processes of :meth:`share` times the mean
    over a process's meshes is the mean over the batch.

    >>> [list(Deal(range(5), 3, rank, ranks=2)) for rank in range(2)]
    [[[0, 2], [3]], [[1], [4]]]
    """

    def __init__(self, sampler: Any, batch_size: int, rank: int = 0, ranks: int = 1) -> None:
        self.sampler, self.batch_size, self.rank, self.ranks = sampler, batch_size, rank, ranks

    def __iter__(self) -> Iterator[list[int]]:
        meshes = iter(self.sampler)
        while batch := list(islice(meshes, self.batch_size)):
            yield batch[self.rank :: self.ranks] or batch[:1]

    def __len__(self) -> int:
        return -(-len(self.sampler) // self.batch_size)

    def share(self, number: int) -> tuple[float, int]:
        """What the mean over this process's meshes of a batch counts for, and how many meshes the batch has."""
        size = min(self.batch_size, len(self.sampler) - number * self.batch_size)
        return len(range(self.rank, size, self.ranks)) * self.ranks / size, size


class EpochLog(pl.Callback):
    """Write ``metrics.csv``, a row an epoch; where there is no progress bar, log one line an epoch.

    A resumed run continues the file.

    Columns: epoch, step, lr, train_loss, the validation errors, seconds of training, peak memory in GB.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @rank_zero_only
    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.start = time.perf_counter()
        self.rows: list[dict[str, Any]] = []
        if self.path.exists() and trainer.current_epoch > 0:
            with self.path.open(newline="") as file:
                self.rows = [r for r in csv.DictReader(file) if int(r["epoch"]) <= trainer.current_epoch]
            self.start -= float(self.rows[-1]["seconds"])

    @rank_zero_only
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        metrics = {k: f"{float(v):.6g}" for k, v in sorted(trainer.callback_metrics.items())}
        lr = trainer.optimizers[0].param_groups[0]["lr"]
        epoch, seconds = trainer.current_epoch + 1, time.perf_counter() - self.start
        row = {"epoch": epoch, "step": trainer.global_step, "lr": f"{lr:.3g}", **metrics}
        row |= {"seconds": f"{seconds:.1f}", "memory_gb": f"{peak_memory():.2f}"}
        self.rows.append(row)
        names = list(dict.fromkeys(k for r in self.rows for k in r))
        with whole(self.path) as part, part.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(self.rows)
        if trainer.progress_bar_callback is None:
            shown = "  ".join(f"{k} {v}" for k, v in metrics.items())
            log.info("epoch %d/%d  %s  lr %.2g  %.0f s", epoch, trainer.max_epochs, shown, lr, seconds)


class WholeCheckpoints(TorchCheckpointIO):
    """Checkpoints that appear when they are complete: Lightning moves them from the directory of temporary files."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        with whole(Path(path)) as part, part.open("wb") as file:
            torch.save(checkpoint, file)


def fit(
    surrogate: Surrogate,
    train: Sequence[Data],
    val: Sequence[Data] | None = None,
    out: str | Path = "runs/train",
    *,
    select: bool = True,
    resume: bool = False,
    device: str = "auto",
    strategy: Strategy = "ddp",
    workers: int = 0,
    loggers: Sequence[Any] = (),
    callbacks: Sequence[pl.Callback] = (),
) -> Surrogate:
    """Train a surrogate and write the run into a directory.

    Started by ``torchrun``, or by :func:`meshop.launch.launch`, it trains on all processes together, as the strategy
    says; the weights become those of one process with the same recipe, up to rounding, dropout and noise.

    The directory gets ``metrics.csv`` and ``checkpoints/last.ckpt``, rewritten after every epoch, and
    ``checkpoints/best.ckpt``, the epoch of the smallest validation loss.

    Args:
        surrogate: what is trained, in place.
        train: packed meshes (a data set of :mod:`meshop.datasets`, or a list).
        val: packed meshes that are evaluated after every epoch.
        out: directory of the run.
        select: whether ``val`` may choose ``best.ckpt`` and stop early; ``False`` when it is the test set.
        resume: continue from ``last.ckpt``; the weights become those of an uninterrupted run.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
        strategy: how several processes share the work. ``ddp`` deals out the meshes of every batch; ``fsdp`` does, and
            shards the weights; ``domain`` cuts every mesh.
        workers: processes that load meshes.
        loggers: Lightning loggers beside ``metrics.csv``.
        callbacks: further Lightning callbacks.

    Returns:
        The surrogate with its last weights (their moving average with ``ema``).

    Raises:
        InputError: the directory holds another run, or another process writes one into it; there is nothing to train
            on, or the loss is not finite; a batch has fewer meshes than there are processes to deal them out to.
    """
    recipe, out = surrogate.recipe, Path(out)
    rank, ranks = processes()
    cuts = strategy == "domain" and ranks > 1
    if not cuts and recipe.batch_size < ranks:
        raise InputError(
            f"A batch of {recipe.batch_size} leaves some of {ranks} processes without a mesh; raise --batch_size to "
            f"{ranks} or more, or cut every mesh with --strategy domain"
        )
    last = out / "checkpoints" / "last.ckpt"
    if len(train) == 0:
        raise InputError("Expected at least one mesh to train on (got none)")
    if recipe.patience is not None and (val is None or len(val) == 0 or not select):
        raise InputError("--patience needs a validation split; give one, as in --split 0.8/0.1/0.1")
    if strategy == "fsdp" and ranks > 1 and recipe.ema is not None:
        raise InputError("--ema averages whole weights, which --strategy fsdp shards; leave one of them out")
    if last.exists() and not resume:
        raise InputError(f"{out} holds a run already; continue it with --resume or choose another --out")
    if resume and last.exists():
        before = Recipe(**read_checkpoint(last)["meshop"]["recipe"])
        changed = [k for k, v in asdict(recipe).items() if v != getattr(before, k)]
        if changed:
            was = ", ".join(f"{k} {getattr(before, k)}, not {getattr(recipe, k)}" for k in changed)
            raise InputError(f"--resume continues the run in {out} as it was begun: {was}")
    last.parent.mkdir(parents=True, exist_ok=True)
    if not (resume and last.exists()):
        surrogate.fit_normalizers(train)
    if recipe.activation_checkpointing:
        checkpoint_activations(surrogate.model)
    surrogate.rank, surrogate.ranks = rank, ranks
    dealt = (rank, ranks)
    if cuts:
        surrogate.share_meshes(rank, ranks)
        train, val = Partitioned(train, ranks), None if val is None else Partitioned(val, ranks)
        dealt = (0, 1)
    own: list[pl.Callback] = [
        EpochLog(out / "metrics.csv"),
        ModelCheckpoint(
            last.parent, filename="last", save_top_k=1, save_on_train_epoch_end=True, enable_version_counter=False
        ),
    ]
    selects = val is not None and len(val) > 0 and select
    if selects:
        own.append(
            ModelCheckpoint(
                last.parent, filename="best", monitor="val_loss", save_top_k=1, enable_version_counter=False
            )
        )
    if recipe.patience is not None:
        own.append(EarlyStopping("val_loss", patience=recipe.patience))
    if recipe.ema is not None:
        own.append(EMAWeightAveraging(decay=recipe.ema, use_buffers=False))
    shared: dict[str, Any] = {"num_workers": workers} | ({"persistent_workers": True} if workers else {})
    shuffled = Deal(Shuffle(len(train), recipe.seed), recipe.batch_size, *dealt)
    loader = DataLoader(train, batch_sampler=shuffled, **shared)
    val_loader = None
    if val is not None and len(val) > 0:
        val_loader = DataLoader(val, batch_sampler=Deal(range(len(val)), recipe.batch_size, *dealt), **shared)
    accelerator, _, index = device.partition(":")
    there = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))  # processes on this machine
    with _quiet():
        trainer = pl.Trainer(
            max_epochs=recipe.epochs,
            accelerator={"cuda": "gpu"}.get(accelerator, accelerator),
            devices=[int(index)] if index else there,
            num_nodes=ranks // there,
            strategy=_strategy(strategy, ranks),
            plugins=_plugins(strategy, ranks),
            use_distributed_sampler=False,
            precision=recipe.precision if recipe.precision != "32" else "32-true",
            gradient_clip_val=recipe.clip or None,
            accumulate_grad_batches=recipe.accumulate,
            logger=list(loggers) or False,
            callbacks=[*own, *callbacks],
            enable_progress_bar=sys.stderr.isatty(),
            enable_model_summary=False,
            num_sanity_val_steps=0,
            default_root_dir=out,
        )
        sharded = strategy == "fsdp" and ranks > 1
        trained = copy.deepcopy(surrogate) if sharded else surrogate
        try:
            start = last if resume and last.exists() else None
            with alone(out) if rank == 0 else nullcontext():
                trainer.fit(trained, loader, val_loader, ckpt_path=start, weights_only=True)
        except SystemExit:  # Lightning's answer to Ctrl-C
            epoch = f"epoch {trainer.current_epoch + 1} of {recipe.epochs}"
            raise KeyboardInterrupt(f"stopped in {epoch}; continue with --resume") from None
        except OSError as error:
            raise InputError(
                f"Cannot write the run in {out}: {error.strerror}; make room and continue with --resume"
            ) from error
    if sharded:
        surrogate.load_state_dict(read_checkpoint(last)["state_dict"])
    return surrogate.eval()


def _plugins(strategy: str, ranks: int) -> list[Any]:
    """Files that are whole, which sharded weights write in their own way; and processes that are there already."""
    files = [] if strategy == "fsdp" and ranks > 1 else [WholeCheckpoints()]
    return [*files, TorchElasticEnvironment()] if ranks > 1 else [*files]


def _deal(loader: Any) -> Deal:
    deal: Deal = loader.batch_sampler
    return deal


def _strategy(name: Strategy, ranks: int) -> Any:
    """Lightning's strategy; parts of one mesh need no more than the mean of the gradients either."""
    if ranks == 1:
        return "auto"
    if name == "fsdp":
        return ModelParallelStrategy(
            data_parallel_size=ranks, tensor_parallel_size=1, save_distributed_checkpoint=False
        )
    return DDPStrategy()


def _shard(model: nn.Module, mesh: Any) -> None:
    """Shard the weights over the processes, each block by itself unless it shares weights with one before."""
    from torch.distributed.fsdp import fully_shard

    seen: set[nn.Parameter] = set()
    for block in chain.from_iterable(m for m in model.children() if isinstance(m, nn.ModuleList)):
        own = set(block.parameters())
        if not own & seen:
            fully_shard(block, mesh=mesh)
        seen |= own
    fully_shard(model, mesh=mesh)


def evaluate(surrogate: Surrogate, data: Sequence[Data], batch_size: int = 4) -> list[dict[str, Any]]:
    """Relative L2 error of every field on every mesh, beside that of the mean of the training set.

    Returns:
        One row a mesh and field: ``name``, ``field``, ``relative_l2`` (every node weighs the same),
        ``relative_l2_measure`` (nodes weigh their measure, when the meshes have one), ``mean_predictor``. Of a rollout
        ``relative_l2`` is that of all frames together; there are also ``frame_mean``, the mean of the errors of single
        frames, and ``last_frame``. After :meth:`Surrogate.share_meshes` every process has the same rows.
    """
    rows: list[dict[str, Any]] = []
    surrogate.eval()
    meshes = Partitioned(data, surrogate.ranks) if surrogate.shares_meshes else data
    with torch.inference_mode():
        for batch in DataLoader(meshes, batch_size=batch_size):
            batch = surrogate.on_before_batch_transfer(batch).to(surrogate.device)
            with surrogate.together(batch):
                prediction = surrogate(batch)
                mean = surrogate.mean(batch)
                own, reference = surrogate.errors(batch, prediction), surrogate.errors(batch, mean)
                weighted = _weighted_errors(surrogate.spec, batch, prediction)
                curves = _frame_errors(surrogate, batch, prediction)
            first = len(rows) // len(surrogate.spec.targets)
            names = batch.name if "name" in batch else [str(first + i) for i in range(batch.num_graphs)]
            for b, name in enumerate(names):
                for field in own:
                    row = {"name": name, "field": field, "relative_l2": float(own[field][b])}
                    row |= {"relative_l2_measure": float(weighted[field][b])} if weighted else {}
                    if curves:
                        frames = curves[field][b]
                        row |= {"frame_mean": float(frames.mean()), "last_frame": float(frames[-1])}
                    rows.append(row | {"mean_predictor": float(reference[field][b])})
    return rows


def lead_errors(surrogate: Surrogate, data: Sequence[Data], batch_size: int = 4) -> list[dict[str, Any]]:
    r"""Errors of the rollout on every window, field and frame, and where they come from.

    With w the truth, :math:`\hat w` the rollout and :math:`F(w_n)` the call from the true history, norms over the nodes
    of a graph and the components of a field:

    ======================= ===========================================================================================
    ``name, field``         of the mesh, as in :func:`evaluate`; of the field, without ``_out``
    ``lead, time``          frames since the history, from 1 on, and the time they take: from the ``times`` of the
                            data, or the number of frames where it has none
    ``relative_l2``         :math:`\lVert \hat w_n - w_n \rVert / \lVert w_n \rVert`
    ``relative_l2_measure`` the same where nodes weigh their measure, when the meshes have one
    ``correlation``         of :math:`\hat w_n` and :math:`w_n` (:func:`meshop.metrics.pearson`)
    ``persistence``         ``relative_l2`` of the last frame of the history, held, but for forced nodes
    ``injection``           :math:`\lVert F(w_{n-1}) - w_n \rVert / \lVert w_n \rVert`
    ``propagation``         :math:`\lVert F(\hat w_{n-1}) - F(w_{n-1}) \rVert / \lVert w_n \rVert`
    ``amplification``       :math:`\lVert F(\hat w_{n-1}) - F(w_{n-1}) \rVert / \lVert \hat w_{n-1} - w_{n-1} \rVert`;
                            NaN where there is no error to amplify, as in the frames of the first call
    ======================= ===========================================================================================

    In all frames of a call n - 1 is the last frame of its history. The decomposition is ours, see
    :meth:`meshop.rollout.Stepper.sources`; all calls but the first are made twice for it. Windows may have more frames
    than those that the model was trained on. Predicted frames are dropped as soon as they are measured.

    Args:
        surrogate: a model with a rollout.
        data: packed windows, on any meshes, with equally many frames.
        batch_size: windows at a time.

    Returns:
        One row a window, field and lead, leads running fastest; :func:`by_lead` makes curves of them.

    Raises:
        InputError: the model has no rollout.
    """
    if surrogate.stepper is None:
        raise InputError("Expected a model with a rollout (got one that predicts all its frames in one call)")
    rows: list[dict[str, Any]] = []
    surrogate.eval()
    with torch.inference_mode():
        for number, batch in enumerate(DataLoader(data, batch_size=batch_size)):
            curves = _lead_curves(surrogate.call, surrogate.stepper, batch.to(surrogate.device))
            names = batch.name if "name" in batch else [str(number * batch_size + i) for i in range(batch.num_graphs)]
            for b, name in enumerate(names):
                for field, columns in curves.items():
                    for lead in range(columns["time"].size(1)):
                        row = {"name": name, "field": field, "lead": lead + 1}
                        rows.append(row | {key: float(curve[b, lead]) for key, curve in columns.items()})
    return rows


def by_lead(rows: Sequence[dict[str, Any]], column: str = "relative_l2") -> dict[str, Tensor]:
    """A column of :func:`lead_errors` as curves over the leads: ``{field: [windows, T]}``.

    Columns of it are the distributions at single leads; ``by_lead(rows, "time")`` has their times.

    >>> rows = [{"field": f, "lead": i, "relative_l2": i / 4} for f in ("u", "p") for i in (1, 2)]
    >>> by_lead(rows)["p"]
    tensor([[0.2500, 0.5000]])
    """
    leads = max(row["lead"] for row in rows)
    fields = dict.fromkeys(row["field"] for row in rows)
    return {f: torch.tensor([row[column] for row in rows if row["field"] == f]).view(-1, leads) for f in fields}


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean over meshes of each number of :func:`evaluate`, a field: ``{"p": {"relative_l2": 0.01, ...}}``."""
    fields = list(dict.fromkeys(r["field"] for r in rows))
    table = {}
    for field in fields:
        chosen = [r for r in rows if r["field"] == field]
        keys = [k for k in chosen[0] if k not in ("name", "field")]
        table[field] = {k: sum(r[k] for r in chosen) / len(chosen) for k in keys}
    return table


def estimate_memory(surrogate: Surrogate, batch: Data) -> dict[str, float]:
    """Memory of one training step in GB: weights with gradients and Adam's moments, and activations of one batch."""
    saved: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    own = {p.untyped_storage().data_ptr() for p in surrogate.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(count, lambda t: t):
        error = torch.stack([e.mean() for e in surrogate.errors(batch).values()]).mean()
    error.backward()
    surrogate.zero_grad(set_to_none=True)
    weights = sum(p.numel() * p.element_size() for p in surrogate.parameters())
    activations = sum(size for pointer, size in saved.items() if pointer not in own)
    return {"weights": 4 * weights / 1e9, "activations": activations / 1e9, "loss": float(error.detach())}


def versions() -> dict[str, str]:
    """Versions of what a run depends on."""
    packages = {"meshop": meshop, "torch": torch, "torch_geometric": sys.modules["torch_geometric"], "lightning": pl}
    return {"python": platform.python_version()} | {k: str(v.__version__) for k, v in packages.items()}


def peak_memory() -> float:
    """Largest memory of this process so far, in GB: of the GPU when one is used, else resident."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated() > 0:
        return torch.cuda.max_memory_allocated() / 1e9
    scale = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e9


def _lead_curves(call: Call, stepper: Stepper, batch: Data) -> dict[str, dict[str, Tensor]]:
    """The columns of :func:`lead_errors` that are numbers, [B, T] each, by field."""
    k, truth = stepper.rollout.frames, stepper.truth(batch.y)
    over: dict[str, Any] = {"batch": batch.batch, "batch_size": batch.num_graphs, "keep": 1}
    measure = batch.measure if "measure" in batch else None
    leads = torch.arange(1.0, truth.size(1) + 1, device=truth.device)
    times = leads.expand(batch.num_graphs, -1)
    if "times" in batch:
        start = stepper.time(batch, 0)
        times = torch.stack([stepper.time(batch, int(lead)) - start for lead in leads], 1)
    columns: dict[str, dict[str, list[Tensor]]] = {name: {} for name in stepper.names}
    calls = zip(stepper.sources(call, batch), stepper.persistence(batch, truth), strict=False)
    for number, ((before, injection, propagation), held) in enumerate(calls):
        true = truth[:, number * k :][:, :k]
        frames = (true, injection, propagation, before[:, None], held[:, : true.size(1)])
        fields = zip(*(stepper.split(f).values() for f in frames), strict=True)
        for name, (y, injected, propagated, error, still) in zip(stepper.names, fields, strict=True):
            p = y + injected + propagated
            growth = [rmse(e, torch.zeros_like(e), **over) for e in (propagated, error)]
            found = {
                "relative_l2": relative_l2(p, y, **over),
                **({} if measure is None else {"relative_l2_measure": relative_l2(p, y, measure=measure, **over)}),
                "correlation": pearson(p, y, **over),
                "persistence": relative_l2(still, y, **over),
                "injection": relative_l2(y + injected, y, **over),
                "propagation": relative_l2(y + propagated, y, **over),
                "amplification": growth[0] / growth[1],
            }
            for key, value in found.items():
                columns[name].setdefault(key, []).append(value)
    return {name: {"time": times} | {key: torch.cat(c, 1) for key, c in own.items()} for name, own in columns.items()}


def _weighted_errors(spec: FieldSpec, batch: Data, prediction: Tensor) -> dict[str, Tensor]:
    if "measure" not in batch:
        return {}
    pairs = zip(spec.unpack(prediction).items(), spec.unpack(batch.y).values(), strict=True)
    return {
        name: relative_l2(p, y, batch=batch.batch, measure=batch.measure, batch_size=batch.num_graphs)
        for (name, p), y in pairs
    }


def _frame_errors(surrogate: Surrogate, batch: Data, prediction: Tensor) -> dict[str, Tensor]:
    """Relative L2 error of each frame [B, T], a field; of rollouts only."""
    if surrogate.stepper is None:
        return {}
    pairs = [surrogate.stepper.split(surrogate.stepper.truth(packed)) for packed in (prediction, batch.y)]
    over: dict[str, Any] = {"batch": batch.batch, "batch_size": batch.num_graphs, "keep": 1}
    return {f"{name}_out": relative_l2(p, pairs[1][name], **over) for name, p in pairs[0].items()}


def _text(spec: FieldSpec) -> str:
    fields = [f"{field} [{field.components}]" for field in (*spec.inputs, *spec.targets)]
    names = ", ".join([*fields, *spec.params])
    return f"{names} with{'' if spec.position else 'out'} coordinates in {spec.dim}-D"


def _in_space(vector: Tensor, points: Tensor) -> Tensor:
    """Vectors [N, 2] in the plane of the points as vectors [N, 3]."""
    axes = in_plane_axes(points)
    if vector.size(1) != 2 or axes is None:
        return vector
    out = vector.new_zeros(vector.size(0), 3)
    out[:, axes] = vector
    return out


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Lightning's errors; drop its adverts and its advice on worker counts and directories."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        advices = (
            "does not have many workers",
            "exists and is not empty",
            "number of training batches",
            "have no `val_dataloader`",
            "overrides the configure_model",
            "available but not used",
            r"`isinstance\(treespec, LeafSpec\)`",  # Lightning 2.6 on torch 2.13
        )
        for advice in advices:
            warnings.filterwarnings("ignore", f".*{advice}")
        yield
