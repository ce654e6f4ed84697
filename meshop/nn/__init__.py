"""Neural operators as PyTorch Geometric layers: ragged, batch-exact, and aware of the nodes' measure."""

from meshop.nn.bi_mamba2 import BiMamba2
from meshop.nn.block import Block, checkpoint_activations
from meshop.nn.cluster_attention import ClusterAttention
from meshop.nn.conditional_position_encoding import ConditionalPositionEncoding
from meshop.nn.deformation import Deformation
from meshop.nn.depthwise_graph_conv import DepthwiseGraphConv
from meshop.nn.eidetic_attention import EideticAttention
from meshop.nn.factorized_spectral_conv import FactorizedSpectralConv
from meshop.nn.feed_forward import FeedForward
from meshop.nn.functional import call
from meshop.nn.grid_conv import GridConv
from meshop.nn.grid_resample import GridResample
from meshop.nn.grid_spectral_conv import GridSpectralConv
from meshop.nn.hydra import Hydra
from meshop.nn.latent_ssm import LatentSSM
from meshop.nn.lift import Lift
from meshop.nn.linear_attention_no import LinearAttentionNO
from meshop.nn.normalizer import Normalizer
from meshop.nn.parallel import Parallel
from meshop.nn.physics_attention import PhysicsAttention
from meshop.nn.radius_kernel import RadiusKernel
from meshop.nn.residual import Residual
from meshop.nn.rezero import ReZero
from meshop.nn.slice_attention import SliceAttention
from meshop.nn.slice_residual_attention import SliceResidualAttention
from meshop.nn.spectral_conv import SpectralConv
from meshop.nn.ss2d import SS2D
from meshop.nn.swiglu import SwiGLU
from meshop.nn.timestep_embedding import TimestepEmbedding
from meshop.nn.unified_position import UnifiedPosition

__all__ = [
    "SS2D",
    "BiMamba2",
    "Block",
    "ClusterAttention",
    "ConditionalPositionEncoding",
    "Deformation",
    "DepthwiseGraphConv",
    "EideticAttention",
    "FactorizedSpectralConv",
    "FeedForward",
    "GridConv",
    "GridResample",
    "GridSpectralConv",
    "Hydra",
    "LatentSSM",
    "Lift",
    "LinearAttentionNO",
    "Normalizer",
    "Parallel",
    "PhysicsAttention",
    "RadiusKernel",
    "ReZero",
    "Residual",
    "SliceAttention",
    "SliceResidualAttention",
    "SpectralConv",
    "SwiGLU",
    "TimestepEmbedding",
    "UnifiedPosition",
    "call",
    "checkpoint_activations",
]
