"""Neural operators as PyTorch Geometric layers: ragged, batch-exact, and aware of the nodes' measure."""

from meshop.nn.block import Block
from meshop.nn.cluster_attention import ClusterAttention
from meshop.nn.feed_forward import FeedForward
from meshop.nn.functional import call
from meshop.nn.grid_conv import GridConv
from meshop.nn.lift import Lift
from meshop.nn.linear import Linear
from meshop.nn.normalizer import Normalizer
from meshop.nn.physics_attention import PhysicsAttention
from meshop.nn.timestep_embedding import TimestepEmbedding
from meshop.nn.unified_position import UnifiedPosition

__all__ = [
    "Block",
    "ClusterAttention",
    "FeedForward",
    "GridConv",
    "Lift",
    "Linear",
    "Normalizer",
    "PhysicsAttention",
    "TimestepEmbedding",
    "UnifiedPosition",
    "call",
]
